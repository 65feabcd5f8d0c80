//! Plain HTTP requests, as any program would send them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

/// Sends a request and gives status and JSON.
pub(crate) fn call(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    let (status, body) = text(method, url, headers, body);
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

/// Sends a request and gives status and body.
pub(crate) fn text(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host).unwrap();
    let mut request = format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}
