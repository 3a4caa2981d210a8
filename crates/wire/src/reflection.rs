//! gRPC server reflection: the served descriptors for tools.
//!
//! The responses are the same on every server of this build; nothing here knows of models.

use crate::proto::DESCRIPTORS;
use crate::proto::reflection::server_reflection_request::MessageRequest;
use crate::proto::reflection::server_reflection_response::MessageResponse;
use crate::proto::reflection::{
    ErrorResponse, FileDescriptorResponse, ListServiceResponse, ServerReflectionRequest,
    ServerReflectionResponse, ServiceResponse,
};
use bytes::Bytes;
use flyball_core::GrpcCode;
use prost::Message;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet};
use std::collections::HashMap;
use std::sync::LazyLock;

pub fn answer(request: ServerReflectionRequest) -> ServerReflectionResponse {
    let response = match &request.message_request {
        Some(MessageRequest::ListServices(_)) => {
            let service = SERVED.services.iter().map(|name| ServiceResponse { name: name.clone() });
            MessageResponse::ListServicesResponse(ListServiceResponse { service: service.collect() })
        }
        Some(MessageRequest::FileByFilename(name)) => found(SERVED.by_name(name), "file", name),
        Some(MessageRequest::FileContainingSymbol(name)) => found(SERVED.by_symbol(name), "symbol", name),
        Some(MessageRequest::FileContainingExtension(asked)) => {
            error(GrpcCode::NotFound, format!("'{}' has no extensions here", asked.containing_type))
        }
        Some(MessageRequest::AllExtensionNumbersOfType(name)) => {
            error(GrpcCode::NotFound, format!("'{name}' has no extensions here"))
        }
        None => error(GrpcCode::Unimplemented, "the request asks nothing that is known here".to_owned()),
    };
    ServerReflectionResponse {
        valid_host: request.host.clone(),
        original_request: Some(request),
        message_response: Some(response),
    }
}

fn found(files: Option<Vec<Bytes>>, what: &str, name: &str) -> MessageResponse {
    match files {
        Some(file_descriptor_proto) => {
            MessageResponse::FileDescriptorResponse(FileDescriptorResponse { file_descriptor_proto })
        }
        None => error(GrpcCode::NotFound, format!("there is no {what} '{name}'; ask for list_services")),
    }
}

fn error(code: GrpcCode, error_message: String) -> MessageResponse {
    MessageResponse::ErrorResponse(ErrorResponse { error_code: code as i32, error_message })
}

static SERVED: LazyLock<Served> = LazyLock::new(Served::read);

#[derive(Default)]
struct Served {
    services: Vec<String>,
    /// Each file, and the names of its imports.
    files: HashMap<String, (Bytes, Vec<String>)>,
    /// Full name → file.
    symbols: HashMap<String, String>,
}

impl Served {
    fn read() -> Served {
        let set = FileDescriptorSet::decode(DESCRIPTORS).expect("a test wrote it");
        let mut served = Served::default();
        for file in set.file {
            served.take(&file);
        }
        served
    }

    fn take(&mut self, file: &FileDescriptorProto) {
        let mut names = Vec::new();
        for service in &file.service {
            let name = format!("{}.{}", file.package(), service.name());
            names.extend(service.method.iter().map(|method| format!("{name}.{}", method.name())));
            self.services.push(name.clone());
            names.push(name);
        }
        types(file.package(), &file.message_type, &file.enum_type, &mut names);
        let file_name = file.name().to_owned();
        self.symbols.extend(names.into_iter().map(|name| (name, file_name.clone())));
        self.files.insert(file_name, (file.encode_to_vec().into(), file.dependency.clone()));
    }

    fn by_symbol(&self, symbol: &str) -> Option<Vec<Bytes>> {
        self.by_name(self.symbols.get(symbol)?)
    }

    /// The file, then everything it imports.
    fn by_name<'s>(&'s self, name: &'s str) -> Option<Vec<Bytes>> {
        self.files.get(name)?;
        let mut names: Vec<&str> = vec![name];
        let mut at = 0;
        while let Some((_, needed)) = names.get(at).and_then(|name| self.files.get(*name)) {
            let new = needed.iter().map(String::as_str).filter(|needed| !names.contains(needed));
            let new: Vec<_> = new.collect();
            names.extend(new);
            at += 1;
        }
        Some(names.into_iter().filter_map(|name| Some(self.files.get(name)?.0.clone())).collect())
    }
}

/// The full names of types and nested types.
fn types(scope: &str, messages: &[DescriptorProto], enums: &[EnumDescriptorProto], names: &mut Vec<String>) {
    names.extend(enums.iter().map(|each| format!("{scope}.{}", each.name())));
    for message in messages {
        let name = format!("{scope}.{}", message.name());
        types(&name, &message.nested_type, &message.enum_type, names);
        names.push(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(request: MessageRequest) -> MessageResponse {
        let request = ServerReflectionRequest { host: "h".into(), message_request: Some(request) };
        let response = answer(request.clone());
        assert_eq!((response.valid_host.as_str(), response.original_request), ("h", Some(request)));
        response.message_response.expect("an answer")
    }

    #[test]
    fn every_service_is_listed_and_the_file_of_each_is_found() {
        let MessageResponse::ListServicesResponse(list) = ask(MessageRequest::ListServices(String::new()))
        else {
            panic!("no list");
        };
        let names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
        let wanted = [
            "inference.GRPCInferenceService",
            "flyball.v1.Decisions",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
        ];
        assert!(wanted.iter().all(|wanted| names.iter().any(|name| name == wanted)), "{names:?}");
        for name in names {
            let MessageResponse::FileDescriptorResponse(files) =
                ask(MessageRequest::FileContainingSymbol(name.clone()))
            else {
                panic!("no file has {name}");
            };
            let file = FileDescriptorProto::decode(files.file_descriptor_proto[0].clone()).expect("decodes");
            assert!(file.service.iter().any(|service| name.ends_with(service.name())));
        }
    }

    #[test]
    fn methods_messages_and_what_is_nested_in_them_are_symbols() {
        for symbol in [
            "inference.GRPCInferenceService.ModelStreamInfer",
            "inference.ModelInferRequest",
            "inference.ModelInferRequest.InferInputTensor",
            "grpc.health.v1.HealthCheckResponse.ServingStatus",
        ] {
            let by_symbol = ask(MessageRequest::FileContainingSymbol(symbol.to_owned()));
            assert!(matches!(by_symbol, MessageResponse::FileDescriptorResponse(_)), "{symbol}");
        }
        let by_name = ask(MessageRequest::FileByFilename("health.proto".to_owned()));
        assert!(matches!(by_name, MessageResponse::FileDescriptorResponse(_)));
    }

    #[test]
    fn what_is_not_there_is_an_error_with_its_code() {
        for request in [
            MessageRequest::FileContainingSymbol("inference.Nothing".to_owned()),
            MessageRequest::FileByFilename("nothing.proto".to_owned()),
            MessageRequest::AllExtensionNumbersOfType("inference.ModelInferRequest".to_owned()),
        ] {
            let MessageResponse::ErrorResponse(error) = ask(request) else { panic!("no error") };
            assert_eq!(error.error_code, 5, "{error:?}");
        }
        let MessageResponse::ErrorResponse(error) =
            answer(ServerReflectionRequest::default()).message_response.expect("an answer")
        else {
            panic!("no error");
        };
        assert_eq!(error.error_code, 12);
    }
}
