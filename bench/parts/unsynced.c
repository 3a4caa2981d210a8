// Preloaded into a server: remembers which bytes of files it has written and not yet synced.
//
// The ranges are in a file that is mapped shared, so they outlive a killed process: after `kill -9` the reader wipes
// them, as a machine would that lost its power. Only real fsync and fdatasync calls clear a range, so a server that
// forgets one loses what it acknowledged. Regular files below a folder count, written by write, pwrite and writev.
// Not covered: names (a rename is durable at once), and bytes that replace others in place, of which a disk may keep
// the old or the new.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { RANGES = 1 << 16 };

// `inode` 0: the place is free. `written` is the number of the event at which the write ended; 0: it has not ended.
struct range {
    uint64_t inode, begin, end, written;
};

static struct range *ranges;
static size_t used;
static uint64_t events;
static const char *folder;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void stop(const char *why) {
    dprintf(2, "unsynced: %s\n", why);
    abort();
}

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("UNSYNCED_FILE");
    folder = getenv("UNSYNCED_FOLDER");
    if (file == NULL || folder == NULL) stop("UNSYNCED_FILE and UNSYNCED_FOLDER must be set");
    int fd = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) return;  // a child of the server: only the server itself is watched
    if (fd < 0 || ftruncate(fd, RANGES * sizeof(struct range)) != 0) stop("cannot make the file of ranges");
    ranges = mmap(NULL, RANGES * sizeof(struct range), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ranges == MAP_FAILED) stop("cannot map the file of ranges");
    close(fd);
}

// The inode of a file that counts, or 0.
static uint64_t counted(int fd) {
    struct stat about;
    char link[32], path[4096];
    if (ranges == NULL || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) stop("cannot name an open file");
    path[length] = 0;
    return strncmp(path, folder, strlen(folder)) == 0 ? about.st_ino : 0;
}

static int replaces(int fd, uint64_t from, size_t bytes) {
    char old[4096];
    for (size_t done = 0; done < bytes;) {
        size_t wanted = bytes - done < sizeof old ? bytes - done : sizeof old;
        ssize_t read = pread(fd, old, wanted, (off_t)(from + done));
        if (read <= 0) return 0;
        for (ssize_t place = 0; place < read; place++)
            if (old[place] != 0) return 1;
        done += (size_t)read;
    }
    return 0;
}

// NULL: this write does not count.
static struct range *will_write(int fd, uint64_t from, uint64_t bytes) {
    uint64_t inode = counted(fd);
    if (inode == 0 || replaces(fd, from, bytes)) return NULL;
    pthread_mutex_lock(&lock);
    size_t place = 0;
    while (place < used && ranges[place].inode != 0) place++;
    if (place == RANGES) stop("too many unsynced writes");
    if (place == used) used++;
    ranges[place] = (struct range){inode, from, from + bytes, 0};
    pthread_mutex_unlock(&lock);
    return &ranges[place];
}

static void has_written(struct range *range) {
    if (range == NULL) return;
    pthread_mutex_lock(&lock);
    range->written = ++events;
    pthread_mutex_unlock(&lock);
}

static int synced(int fd, int (*sync)(int)) {
    uint64_t inode = counted(fd);
    pthread_mutex_lock(&lock);
    uint64_t began = ++events;
    pthread_mutex_unlock(&lock);
    int done = sync(fd);
    if (inode == 0 || done != 0) return done;
    pthread_mutex_lock(&lock);
    for (size_t place = 0; place < used; place++) {
        struct range *one = &ranges[place];
        // A write that ended after the sync began may have missed it.
        if (one->inode == inode && one->written != 0 && one->written < began) one->inode = 0;
    }
    pthread_mutex_unlock(&lock);
    return done;
}

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) stop(name);
    return found;
}

int fdatasync(int fd) {
    return synced(fd, (int (*)(int))real("fdatasync"));
}

int fsync(int fd) {
    return synced(fd, (int (*)(int))real("fsync"));
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    ssize_t (*write_at)(int, const void *, size_t, off64_t) = real("pwrite64");
    struct range *range = will_write(fd, (uint64_t)at, count);
    ssize_t written = write_at(fd, bytes, count, at);
    has_written(range);
    return written;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    return pwrite64(fd, bytes, count, at);
}

// Where the next write goes; 0 for sockets and pipes, which do not count.
static uint64_t position(int fd) {
    int flags = fcntl(fd, F_GETFL);
    off_t at = lseek(fd, 0, flags >= 0 && flags & O_APPEND ? SEEK_END : SEEK_CUR);
    return at < 0 ? 0 : (uint64_t)at;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    ssize_t (*write_on)(int, const void *, size_t) = real("write");
    struct range *range = will_write(fd, position(fd), count);
    ssize_t written = write_on(fd, bytes, count);
    has_written(range);
    return written;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    ssize_t (*write_all)(int, const struct iovec *, int) = real("writev");
    uint64_t bytes = 0;
    for (int part = 0; part < count; part++) bytes += parts[part].iov_len;
    struct range *range = will_write(fd, position(fd), bytes);
    ssize_t written = write_all(fd, parts, count);
    has_written(range);
    return written;
}
