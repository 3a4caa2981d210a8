//! Writes records into a journal at a steady rate and reports the cost.
//!
//! One thread for each lane writes at the rate; with `--cost` it measures what one record costs the offering
//! thread instead. Prints one line of JSON a second and the totals in the last line.
//!
//! `pour FOLDER [--rate 50000] [--seconds 60] [--lanes 2] [--subjects 10000] [--cost]`. Replaces the walk: it
//! knows no decision, only that a record has about 1 KiB, partly personal.

use flyball_core::{DecisionId, JournalRecord, LaneRecorder, Recorder};
use flyball_journal::{Journal, JournalCounts, JournalSettings};
use minicbor::Encoder;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(1);
/// The size of the pairs of a decision with a dozen features.
const PAIRS_BYTES: usize = 640;
const COST_BATCHES: usize = 2000;
const COST_BATCH: usize = 64;

struct Options {
    folder: String,
    rate: u64,
    seconds: u64,
    lanes: u64,
    subjects: u64,
    cost: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let mut settings = JournalSettings::new(&options.folder, options.lanes as usize);
    settings.segment_bytes = 64 << 20;
    let journal = Journal::open(settings)?;
    let told = if options.cost { cost(&*journal.lane(0), &options) } else { pour(&journal, &options)? };
    println!("{told}");
    Ok(())
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("usage: pour FOLDER [--rate N] [--seconds N] [--lanes N] [--subjects N] [--cost]")?;
    let mut options = Options { folder, rate: 50_000, seconds: 60, lanes: 2, subjects: 10_000, cost: false };
    while let Some(name) = arguments.next() {
        let place = match name.as_str() {
            "--cost" => {
                options.cost = true;
                continue;
            }
            "--rate" => &mut options.rate,
            "--seconds" => &mut options.seconds,
            "--lanes" => &mut options.lanes,
            "--subjects" => &mut options.subjects,
            _ => return Err(format!("unknown option '{name}'").into()),
        };
        *place = arguments.next().ok_or("an option needs a number")?.parse()?;
    }
    Ok(options)
}

fn pour(journal: &Arc<Journal>, options: &Options) -> Result<serde_json::Value, Box<dyn Error>> {
    let (begun, cpu) = (Instant::now(), cpu_ns(ClockId::ProcessCPUTime));
    let (ended, refused) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut samples = Vec::new();
    thread::scope(|scope| {
        for lane in 0..options.lanes {
            let (ended, refused) = (&ended, &refused);
            scope.spawn(move || {
                run_lane(&*journal.lane(lane as usize), lane, options, (begun, ended, refused))
            });
        }
        for second in 1..=options.seconds {
            thread::sleep((begun + Duration::from_secs(second)).saturating_duration_since(Instant::now()));
            samples.push(rss_bytes());
            let counts = journal.counts();
            println!(
                "{}",
                json!({"second": second, "rss_bytes": rss_bytes(), "records": counts.of("decision"),
                       "unsynced_records": counts.unsynced_records, "unsynced_ns": counts.unsynced_ns})
            );
        }
        ended.store(true, Ordering::Relaxed);
    });
    let seconds = begun.elapsed().as_secs_f64();
    journal.close();
    let (counts, cpu) = (journal.counts(), cpu_ns(ClockId::ProcessCPUTime) - cpu);
    let records = counts.of("decision");
    // The first part of the run fills caches of keys and buffers.
    let first = samples.get(samples.len() / 4).copied().unwrap_or_default();
    Ok(json!({
        "rate_per_s": options.rate, "seconds": seconds, "lanes": options.lanes, "subjects": options.subjects,
        "records": records, "per_s": records as f64 / seconds,
        "payload_bytes": payload_bytes(&counts, records), "refused": refused.into_inner(),
        "missed": counts.gap_decisions.iter().map(|(_, count)| count).sum::<u64>(),
        "cpu_us_per_record": cpu as f64 / 1e3 / records.max(1) as f64,
        "rss_first_bytes": first, "rss_last_bytes": samples.last(), "rss_bytes": samples,
        "segment": counts.segment, "syncs": counts.syncs,
        "sync_mean_ms": counts.sync_ns_sum as f64 / 1e6 / counts.syncs.max(1) as f64,
    }))
}

fn payload_bytes(counts: &JournalCounts, records: u64) -> f64 {
    counts.bytes as f64 / records.max(1) as f64 - flyball_journal::FRAME_HEAD_BYTES as f64
}

fn run_lane(
    recorder: &dyn LaneRecorder,
    lane: u64,
    options: &Options,
    (begun, ended, refused): (Instant, &AtomicBool, &AtomicU64),
) {
    let pairs = pairs();
    let mut offered = 0;
    while !ended.load(Ordering::Relaxed) {
        let due = (begun.elapsed().as_secs_f64() * options.rate as f64) as u64 / options.lanes;
        while offered < due {
            offered += 1;
            if recorder.reserve(1).is_err() {
                refused.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let mut entry = recorder.blank();
            write(&mut entry, lane << 48 | offered, options.subjects, &pairs);
            recorder.offer(entry);
        }
        thread::sleep(TICK);
    }
}

/// CBOR bytes in place of the pairs that the walk would write.
fn pairs() -> Vec<u8> {
    let mut pairs = Vec::new();
    let written =
        Encoder::new(&mut pairs).str("features").and_then(|map| map.bytes(&[7; PAIRS_BYTES]).map(|_| ()));
    written.expect("writing to memory cannot fail");
    pairs
}

fn write(entry: &mut JournalRecord, number: u64, subjects: u64, pairs: &[u8]) {
    // Spread over the subjects in pseudo-random order.
    let subject = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % subjects;
    entry.id = DecisionId::new(number >> 10, u128::from(number));
    entry.pairs.extend_from_slice(pairs);
    entry.pairs_count = 1;
    let text = |out: &mut Vec<u8>, key, length| {
        let map = Encoder::new(out).map(1).and_then(|map| map.str(key)?.str(&TEXT[..length]).map(|_| ()));
        map.expect("writing to memory cannot fail");
    };
    text(&mut entry.input, "purpose", 160);
    let nested = Encoder::new(&mut entry.personal).map(1).and_then(|map| map.str("input").map(|_| ()));
    nested.expect("writing to memory cannot fail");
    text(&mut entry.personal, "address", 96);
    entry.subject.extend_from_slice(b"customer ");
    entry.subject.extend_from_slice(&subject.to_le_bytes());
}

const TEXT: &str = "a text that is as long as what a person writes into a form, with a name, a street, a number, a place \
and perhaps a word or two about what the money is for, or whom it is for";

/// CPU time that a record costs the offering thread, in three parts.
fn cost(recorder: &dyn LaneRecorder, options: &Options) -> serde_json::Value {
    let pairs = pairs();
    let mut parts = [0; 3];
    let mut number = 0;
    let mut entries: Vec<Box<JournalRecord>> = Vec::with_capacity(COST_BATCH);
    for batch in 0..COST_BATCHES {
        let start = cpu_ns(ClockId::ThreadCPUTime);
        for _ in 0..COST_BATCH {
            recorder.reserve(1).expect("the ring has room for this few");
        }
        let held = cpu_ns(ClockId::ThreadCPUTime);
        for _ in 0..COST_BATCH {
            number += 1;
            let mut entry = recorder.blank();
            write(&mut entry, number, options.subjects, &pairs);
            entries.push(entry);
        }
        let written = cpu_ns(ClockId::ThreadCPUTime);
        entries.drain(..).for_each(|entry| {
            recorder.offer(entry);
        });
        let offered = cpu_ns(ClockId::ThreadCPUTime);
        // The first batches warm up: buffers are new.
        if batch >= COST_BATCHES / 10 {
            parts
                .iter_mut()
                .zip([held - start, written - held, offered - written])
                .for_each(|(part, ns)| *part += ns);
        }
        thread::sleep(TICK);
    }
    let records = ((COST_BATCHES - COST_BATCHES / 10) * COST_BATCH) as f64;
    let [held, written, offered] = parts.map(|ns| ns as f64 / 1e3 / records);
    json!({"cost_us": {"held": held, "written": written, "offered": offered}, "records": records})
}

fn cpu_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The resident memory of the process.
fn rss_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * rustix::param::page_size() as u64
}
