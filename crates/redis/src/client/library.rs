//! Libraries of functions: how their code is loaded, called, and sent as scripts where functions are not permitted.

use std::fmt::Write as _;

use redis::Cmd;

/// A library: a versioned name, and the texts it consists of.
///
/// The texts are Lua. They register their functions by `register(name, flags, function)`, which is there in both forms: in a library
/// and, one function at a time, in a script. They share local names, in the order of the texts.
#[derive(Debug)]
pub struct Library {
    /// Its name on the server, such as `amends_log_v1`. Whatever changes what a function does is another version.
    pub name: &'static str,
    /// The texts, in order.
    pub texts: &'static [&'static str],
}

/// A function of a library.
#[derive(Debug)]
pub struct Function {
    /// Where it is.
    pub library: &'static Library,
    /// Its name on the server, such as `amends_log_begin_v1`: unique among all libraries.
    pub name: &'static str,
    /// Its flags, as in the texts: `no-writes`, `allow-oom`. A script needs them at its head.
    pub flags: &'static [&'static str],
}

impl Library {
    /// The code as it is loaded.
    #[must_use]
    pub fn code(&self) -> String {
        let mut code = format!(
            "#!lua name={}\n\
             local function register(name, flags, callback)\n\
             \u{20} redis.register_function{{function_name = name, callback = callback, flags = flags}}\n\
             end\n",
            self.name
        );
        self.texts.iter().for_each(|text| code.push_str(text));
        code
    }
}

impl Function {
    /// The function alone, as a script.
    pub(super) fn script(&self) -> Script {
        let mut code = String::from("#!lua");
        if !self.flags.is_empty() {
            // Infallible: a String takes everything.
            let _ = write!(code, " flags={}", self.flags.join(","));
        }
        code.push_str("\nlocal registered = {}\nlocal function register(name, flags, callback) registered[name] = callback end\n");
        self.library.texts.iter().for_each(|text| code.push_str(text));
        let _ = write!(code, "\nreturn registered['{}'](KEYS, ARGV)\n", self.name);
        let hash = redis::Script::new(&code).get_hash().to_owned();
        Script { code, hash }
    }
}

/// A function as a script: its code, and the SHA-1 that Redis knows it by.
pub(super) struct Script {
    code: String,
    hash: String,
}

pub(super) fn load(library: &Library, replace: bool) -> Cmd {
    let mut command = redis::cmd("FUNCTION");
    command.arg("LOAD");
    if replace {
        command.arg("REPLACE");
    }
    command.arg(library.code());
    command
}

pub(super) fn call(function: &Function, keys: &[&[u8]], args: &[&[u8]]) -> Cmd {
    with_arguments(redis::cmd("FCALL"), function.name, keys, args)
}

pub(super) fn evalsha(script: &Script, keys: &[&[u8]], args: &[&[u8]]) -> Cmd {
    with_arguments(redis::cmd("EVALSHA"), &script.hash, keys, args)
}

pub(super) fn eval(script: &Script, keys: &[&[u8]], args: &[&[u8]]) -> Cmd {
    with_arguments(redis::cmd("EVAL"), &script.code, keys, args)
}

fn with_arguments(mut command: Cmd, what: &str, keys: &[&[u8]], args: &[&[u8]]) -> Cmd {
    command.arg(what).arg(keys.len());
    for part in keys.iter().chain(args) {
        command.arg(*part);
    }
    command
}
