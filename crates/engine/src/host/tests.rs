//! Hosts with misbehaving models, made in `runner/tests/onnx.rs`, and loads with misbehaving hosts.
//!
//! A host is this test program, started again for one test: `serving_models`.

use super::process::{Host, WaitLimit};
use super::{HostCommand, HostedModel, ModelHosts, ProbeLimits, Proof, ProofRequest};
use crate::native::tests::golden;
use crate::runner::tests::{artifact, onnx, runtime};
use crate::{Artifact, MemoryBudget, Refusal, Run, RunError, ScanFacts, SessionOptions};
use flyball_core::{DataType, Digest, Tensor, TensorData};
use std::sync::Arc;
use std::time::Duration;

const AS_HOST: &str = "as-a-model-host";

/// Does nothing unless this program was started as a host.
#[test]
fn serving_models() {
    if std::env::args().any(|argument| argument == AS_HOST) {
        super::serve_models().unwrap();
        std::process::exit(0);
    }
}

pub(crate) fn command() -> HostCommand {
    let arguments = ["--exact", "host::tests::serving_models", AS_HOST];
    HostCommand {
        program: std::env::current_exe().unwrap(),
        arguments: arguments.into_iter().map(Into::into).collect(),
    }
}

fn shell(script: &str) -> HostCommand {
    HostCommand { program: "/bin/sh".into(), arguments: vec!["-c".into(), script.into()] }
}

/// CPU time, so that a busy machine changes nothing; wall time is four times as much.
fn hosts_of(command: HostCommand, cpu_ms: u64) -> ModelHosts {
    let limits = ProbeLimits { cpu_max: Duration::from_millis(cpu_ms), memory_bytes_max: Some(512 << 20) };
    ModelHosts::new(Some(command), limits)
}

const LONG_MS: u64 = 60_000;

fn prove_in(hosts: &ModelHosts, artifact: &Artifact) -> Result<Arc<Proof>, Refusal> {
    let (session, memory) = (&SessionOptions::default(), MemoryBudget::UNLIMITED);
    hosts.prove(
        &runtime(),
        artifact,
        &ProofRequest { rows_max: 8, session, trees: true, memory, leaving: &|| false },
    )
}

fn reason(hosts: &ModelHosts, artifact: &Artifact) -> String {
    prove_in(hosts, artifact).expect_err("it is refused").to_string()
}

#[test]
fn a_host_finds_what_this_process_would_find_and_is_not_asked_twice() {
    let hosts = hosts_of(command(), LONG_MS);
    for model in [
        onnx::row_sum(3),
        onnx::row_sum(5),
        onnx::negated(),
        onnx::looped(),
        onnx::identity(onnx::STRING),
        golden("lightgbm_two"),
    ] {
        let artifact = artifact(model);
        let here = Proof::find(&runtime(), &artifact, 8, &SessionOptions::default(), true).unwrap();
        let there = prove_in(&hosts, &artifact).unwrap();
        assert_eq!(there.batching, here.batching);
        assert_eq!(there.native, here.native);
        assert_eq!(there.rows.map(|(length, _)| length), here.rows.map(|(length, _)| length));
        assert!(there.fits(&crate::runner::tests::runner(artifact.model.clone()).signature).is_ok());
        hosts.rest();
        let again =
            ModelHosts { command: Some(shell("exit 1")), ..hosts.within_limits(ProbeLimits::default()) };
        assert!(Arc::ptr_eq(&prove_in(&again, &artifact).unwrap(), &there));
    }
}

#[test]
fn a_model_without_an_end_is_refused_after_its_time_and_the_next_one_is_proven() {
    let hosts = hosts_of(command(), 2000);
    let refused = reason(&hosts, &artifact(onnx::endless()));
    assert!(refused.starts_with("the probe did not end within 2000 ms (probe_ms_max)"), "{refused}");
    assert!(prove_in(&hosts, &artifact(onnx::row_sum(3))).is_ok());
}

#[test]
fn a_model_that_takes_more_memory_than_its_host_may_have_is_refused() {
    let hosts = hosts_of(command(), LONG_MS);
    let refused = reason(&hosts, &artifact(onnx::huge()));
    assert!(
        refused.starts_with("the probe took more than 512 MiB of memory (probe_memory_bytes_max)"),
        "{refused}"
    );
    assert!(prove_in(&hosts, &artifact(onnx::row_sum(3))).is_ok());
}

#[test]
fn what_onnx_runtime_refuses_is_told_in_the_same_words_and_does_not_cost_the_host() {
    let hosts = hosts_of(command(), LONG_MS);
    let broken = Artifact {
        digest: Digest::of(b"broken"),
        facts: ScanFacts::default(),
        model: b"broken".to_vec(),
        external_data: Vec::new(),
        defaults: Vec::new(),
    };
    let here =
        Proof::find(&runtime(), &broken, 8, &SessionOptions::default(), false).unwrap_err().to_string();
    assert_eq!(reason(&hosts, &broken), here);
    assert!(hosts.idle.lock().unwrap().is_some());
}

#[test]
fn a_host_that_is_killed_or_ends_or_sends_garbage_or_cannot_be_started_is_a_refusal() {
    let model = artifact(onnx::row_sum(3));
    let killed = reason(&hosts_of(shell("kill -9 $$"), LONG_MS), &model);
    assert!(killed.starts_with("the model host ended: killed by signal 9"), "{killed}");
    let ended = reason(&hosts_of(shell("exit 7"), LONG_MS), &model);
    assert!(ended.starts_with("the model host ended: exit status 7"), "{ended}");
    // Standard input is the socket, in both directions.
    let garbled = reason(
        &hosts_of(shell("exec 3<&0; yes garbage | head -c 4096 >&3; cat >/dev/null <&3"), LONG_MS),
        &model,
    );
    assert!(garbled.starts_with("the model host sent a frame of "), "{garbled}");
    let absent = HostCommand { program: "/nowhere/flyballd".into(), arguments: Vec::new() };
    let unstartable = reason(&hosts_of(absent, LONG_MS), &model);
    assert!(unstartable.starts_with("cannot start the model host: "), "{unstartable}");
}

#[test]
fn a_host_that_reads_nothing_is_left_after_its_time_however_large_the_model() {
    let hosts = hosts_of(shell("exec sleep 1000"), 50);
    let mut large = artifact(onnx::row_sum(3));
    large.external_data = vec![("weights".to_owned(), vec![0; 8 << 20].into())];
    for model in [artifact(onnx::row_sum(3)), large] {
        let refused = reason(&hosts, &model);
        assert!(refused.starts_with("the probe did not end within 50 ms"), "{refused}");
    }
}

#[test]
fn a_server_that_leaves_does_not_wait_for_a_proof() {
    let (session, memory) = (&SessionOptions::default(), MemoryBudget::UNLIMITED);
    let ask = ProofRequest { rows_max: 8, session, trees: false, memory, leaving: &|| true };
    let left = hosts_of(command(), LONG_MS).prove(&runtime(), &artifact(onnx::endless()), &ask);
    assert!(matches!(left, Err(Refusal::Leaving)));
}

#[test]
fn a_host_ends_with_its_parent_also_inside_a_run_without_an_end() {
    let mut host = Host::start(&command(), runtime().path()).unwrap();
    let (model, payload) = super::message::ModelParts::of(Box::leak(Box::new(artifact(onnx::endless()))));
    let session = SessionOptions::default();
    let ask =
        super::message::Ask::Prove { model, rows_max: 8, session, trees: false, memory_bytes_max: 512 << 20 };
    host.send(&ask, &payload, &WaitLimit::wall(Duration::from_secs(60))).unwrap();
    // As if this process had ended: the kernel closes its sockets.
    host.stream.shutdown(std::net::Shutdown::Both).unwrap();
    let status = host.process.child.lock().unwrap().wait().unwrap();
    assert_eq!(status.code(), Some(0));
}

fn trips(count: i64) -> Tensor {
    let data = TensorData::Fixed(count.to_le_bytes().to_vec().into());
    Tensor { name: "x".into(), datatype: DataType::Int64, shape: [].as_slice().into(), data }
}

fn hosted(model: fn() -> Vec<u8>, run_max: Duration) -> HostedModel {
    let hosts = hosts_of(command(), LONG_MS);
    HostedModel::new(&hosts, &runtime(), Arc::new(move || Ok(artifact(model()))), run_max, 512 << 20).unwrap()
}

fn run(model: &mut HostedModel, input: Tensor) -> Result<Vec<Tensor>, RunError> {
    let mut outputs = Vec::new();
    model.clear();
    model.add(&[input]);
    model.run(&mut outputs).map(|()| outputs)
}

#[test]
fn a_run_in_a_host_ends_by_its_limit_or_when_it_is_stopped_and_the_next_one_has_a_new_host() {
    let count = |outputs: Vec<Tensor>| match &outputs[0].data {
        TensorData::Fixed(bytes) => f32::from_le_bytes(bytes.as_ref().try_into().unwrap()),
        TensorData::Strings(_) => panic!("floats"),
    };
    let mut model = hosted(onnx::looped, Duration::from_millis(300));
    assert_eq!(run(&mut model, trips(7)).map(count), Ok(7.0));
    assert_eq!(run(&mut model, trips(i64::MAX)).map(count), Err(RunError::Stopped));
    assert_eq!(run(&mut model, trips(3)).map(count), Ok(3.0));
    let mut model = hosted(onnx::looped, Duration::from_secs(600));
    let stop = model.stopper();
    let stopped = std::thread::scope(|scope| {
        let endless = scope.spawn(|| run(&mut model, trips(i64::MAX)));
        while !endless.is_finished() {
            stop();
            std::thread::yield_now();
        }
        endless.join().unwrap()
    });
    assert_eq!(stopped.map(count), Err(RunError::Stopped));
    assert_eq!(run(&mut model, trips(4)).map(count), Ok(4.0));
}

#[test]
fn a_run_in_a_host_that_fails_or_takes_too_much_memory_says_so_and_the_host_stays() {
    let mut model = hosted(onnx::range, Duration::from_secs(600));
    assert_eq!(run(&mut model, trips(2)).unwrap()[0].shape.as_slice(), [2]);
    let Err(RunError::Failed(text)) = run(&mut model, trips(900_000_000)) else { panic!("it fails") };
    assert!(text.contains("memory"), "{text}");
    assert_eq!(run(&mut model, trips(3)).unwrap()[0].shape.as_slice(), [3]);
}
