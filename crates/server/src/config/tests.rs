//! Which settings hold together, and what is said of those that do not.

use super::*;

#[test]
fn the_defaults_are_sound() {
    assert_eq!(ServerConfig::default().check(), []);
}

#[test]
fn one_address_cannot_take_every_place() {
    let config = ServerConfig::default();
    assert_eq!(config.connections_per_address_max, config.connections_max / 4);
}

#[test]
fn every_setting_out_of_bounds_is_reported_at_once() {
    let config = ServerConfig {
        lanes: Some(0),
        compute_lanes: Some(257),
        inline_run_us_max: 49,
        memory_bytes_max: Some((64 << 20) - 1),
        grace_ms: u64::MAX,
        log: "loud".into(),
        log_format: "xml".into(),
        ..ServerConfig::default()
    };
    let paths: Vec<_> = config.check().into_iter().map(|fault| fault.path).collect();
    let wanted =
        ["lanes", "compute_lanes", "inline_run_us_max", "memory_bytes_max", "grace_ms", "log", "log_format"];
    assert_eq!(paths, wanted);
}

#[test]
fn there_are_no_more_compute_lanes_than_lanes_where_both_are_given() {
    let faults = |lanes, compute_lanes| {
        let compute_lanes = Some(compute_lanes);
        ServerConfig { lanes, compute_lanes, ..ServerConfig::default() }.check()
    };
    assert_eq!(faults(Some(2), 2), []);
    assert_eq!(faults(None, 256), [], "the machine decides on lanes, and the server on the rest");
    let told: Vec<_> = faults(Some(2), 3).iter().map(ToString::to_string).collect();
    assert_eq!(told, ["compute_lanes is 3; allowed: null, or a whole number, 1 to 256, no more than lanes"]);
    assert_eq!(faults(Some(2), 257).len(), 1, "told once");
    assert_eq!(faults(Some(0), 3).len(), 1, "only lanes is wrong");
}

#[test]
fn addresses_are_tcp_tls_or_unix_with_ipv6_in_brackets() {
    for address in ["127.0.0.1:0", "localhost:8080", "[::1]:0"] {
        assert_eq!(Endpoint::parse(address), Some(Endpoint::Tcp(address)));
        assert_eq!(Endpoint::parse(&format!("tls://{address}")), Some(Endpoint::Tls(address)));
    }
    assert_eq!(Endpoint::parse("unix:/run/f.sock"), Some(Endpoint::Unix(Path::new("/run/f.sock"))));
    let long = format!("unix:/{}", "x".repeat(107));
    for address in [
        "::1:0",
        "8080",
        ":8080",
        "localhost:",
        "localhost:65536",
        "",
        "tls://",
        "unix:",
        "http://h:1",
        &long,
    ] {
        assert_eq!(Endpoint::parse(address), None, "{address}");
    }
}

#[test]
fn certificates_are_needed_for_tls_and_only_there() {
    let paths =
        |config: ServerConfig| -> Vec<_> { config.check().into_iter().map(|fault| fault.path).collect() };
    let file = || Some(PathBuf::from("f.pem"));
    let listen = vec!["tls://localhost:0".to_owned()];
    let bare = ServerConfig { listen: listen.clone(), ..ServerConfig::default() };
    assert_eq!(paths(bare), ["tls_cert", "tls_key"]);
    let whole = ServerConfig {
        listen,
        tls_cert: file(),
        tls_key: file(),
        tls_client_ca: file(),
        ..ServerConfig::default()
    };
    assert!(paths(whole).is_empty());
    let idle = ServerConfig { tls_key: file(), tls_client_ca: file(), ..ServerConfig::default() };
    assert_eq!(paths(idle), ["tls_key", "tls_client_ca"]);
}

#[test]
fn modes_owners_and_origins_are_checked() {
    for (mode, wanted) in
        [("0600", Some(0o600)), ("660", Some(0o660)), ("0888", None), ("60", None), ("01600", None)]
    {
        let config = ServerConfig { unix_mode: mode.to_owned(), ..ServerConfig::default() };
        assert_eq!(config.unix_mode(), wanted, "{mode}");
    }
    assert!(["root", "1000:1000", "www-data:web"].iter().all(|owner| is_valid_owner(owner)));
    assert!(["", ":", "a:", ":b", "a:b:c", "a b"].iter().all(|owner| !is_valid_owner(owner)));
    assert!(["*", "https://a.example", "http://localhost:3000"].iter().all(|origin| is_valid_origin(origin)));
    assert!(
        ["", "a.example", "https://", "https://a/b", "ftp://a"].iter().all(|origin| !is_valid_origin(origin))
    );
}

#[test]
fn a_journal_may_lose_no_less_than_two_rounds_to_the_disk() {
    let faults = |sync, loss| {
        let config =
            ServerConfig { journal_sync_ms: sync, journal_loss_ms_max: loss, ..ServerConfig::default() };
        config.check().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(faults(1000, 2000), [""; 0]);
    let allowed = "allowed: a whole number, 100 to 60000, twice journal_sync_ms or more";
    assert_eq!(faults(1000, 1999), [format!("journal_loss_ms_max is 1999; {allowed}")]);
    assert_eq!(faults(1000, 99), [format!("journal_loss_ms_max is 99; {allowed}")]);
}

#[test]
fn the_place_of_a_key_is_a_file_the_environment_or_a_command() {
    let sound = |place: &str| {
        ServerConfig { journal_kek: Some(place.to_owned()), ..ServerConfig::default() }.check().is_empty()
    };
    assert!(["file:/run/kek", "env:KEK", "command:vault read kek"].into_iter().all(sound));
    assert!(!["", "kek", "file:", "command: ", "env:A=B", "vault:x"].into_iter().any(sound));
}

#[test]
fn unknown_settings_wrong_types_and_numbers_out_of_bounds_are_told_at_once() {
    let text =
        r#"{"lane": 2, "lanes": "2", "listen": ["h:1", 7], "mlock": 1, "grace_ms": -1, "log": "loud"}"#;
    let faults = ServerConfig::read(text.as_bytes()).unwrap_err();
    let told: Vec<_> = faults.iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(told, ["grace_ms", "lane", "lanes", "listen[1]", "log", "mlock"]);
    assert_eq!(faults[0].allowed, "a whole number, 0 to 3600000");
    assert!(faults[1].allowed.starts_with("no such key; keys are allow_anonymous, "));
    assert_eq!(faults[2].to_string(), "lanes is \"2\"; allowed: null, or a whole number, 1 to 256");
}

#[test]
fn what_is_no_object_is_one_fault_of_the_whole_and_no_settings_are_the_defaults() {
    for text in ["", "[]", "{", r#"{"lanes": 1, "lanes": 2}"#] {
        let faults = ServerConfig::read(text.as_bytes()).unwrap_err();
        assert_eq!(faults.iter().map(|fault| fault.path.as_str()).collect::<Vec<_>>(), [""], "{text}");
    }
    assert_eq!(ServerConfig::read(b"{}").unwrap(), ServerConfig::default());
}

#[test]
fn every_number_has_its_bounds_and_every_switch_its_words() {
    let defaults = serde_json::to_value(ServerConfig::default()).unwrap();
    for (key, value) in defaults.as_object().unwrap() {
        let bounded = NUMBERS.iter().any(|(known, _)| known == key);
        assert!(bounded || !value.is_number(), "{key}");
        assert_eq!(allowed(key) == "true or false", value.is_boolean(), "{key}");
    }
}
