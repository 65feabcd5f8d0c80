//! What an error of the server, or of the way to it, means for a store.

use amends_store::{Error, Kind};

/// What a call was to do: a read that got no answer changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// It changes nothing, or nothing that was not yet committed.
    Reads,
    /// It commits by itself.
    Writes,
}

/// How a script went wrong.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server said no.
    Said {
        /// Its code.
        code: u16,
        /// Its words.
        message: String,
        /// How many statements of the script it had carried out before.
        done: usize,
    },
    /// No answer, or none that can be read; the connection is of no more use.
    Lost(String),
    /// No answer for so long that it was given up; the connection is of no more use either.
    Silent,
    /// There is no connection to send it on.
    Unsent(Error),
}

impl Fault {
    pub(crate) fn new(error: mysql_async::Error, done: usize) -> Self {
        match error {
            mysql_async::Error::Server(error) => {
                Self::Said { code: error.code, message: error.message, done }
            }
            other @ (mysql_async::Error::Driver(_)
            | mysql_async::Error::Io(_)
            | mysql_async::Error::Other(_)
            | mysql_async::Error::Url(_)) => Self::Lost(other.to_string()),
        }
    }

    /// Whether the whole transaction has to be tried again: somebody else was quicker, and it must not commit.
    pub(crate) fn is_race(&self) -> bool {
        match self {
            Self::Said { code, .. } => RACES.contains(code),
            Self::Lost(_) | Self::Silent | Self::Unsent(_) => false,
        }
    }

    /// Whether a row was there already.
    pub(crate) fn is_duplicate(&self) -> bool {
        matches!(self, Self::Said { code: DUPLICATE, .. })
    }

    /// Whether the session is over, or will be.
    pub(crate) fn ends_session(&self) -> bool {
        match self {
            Self::Said { code, .. } => ENDINGS.contains(code),
            Self::Lost(_) | Self::Silent | Self::Unsent(_) => true,
        }
    }

    /// As the callers of a store are told.
    pub(crate) fn tell(&self, call: Call) -> Error {
        match (self, call) {
            (Self::Said { .. }, Call::Writes) if self.ends_session() || self.is_of_commit() => self.lost(),
            (Self::Said { code, message, .. }, _) => said(*code, message),
            (Self::Lost(_) | Self::Silent, Call::Reads) => unreachable(&self.words()),
            (Self::Lost(_) | Self::Silent, Call::Writes) => self.lost(),
            (Self::Unsent(error), _) => error.clone(),
        }
    }

    /// As the callers of a store are told when it may have committed all the same.
    pub(crate) fn lost(&self) -> Error {
        lost(&self.words())
    }

    fn is_of_commit(&self) -> bool {
        matches!(self, Self::Said { code: 1180 | 1598, .. })
    }

    fn words(&self) -> String {
        match self {
            Self::Said { code, message, .. } => format!("{message} ({code})"),
            Self::Lost(why) => why.clone(),
            Self::Silent => "it does not answer".to_owned(),
            Self::Unsent(error) => error.message.clone(),
        }
    }
}

const DUPLICATE: u16 = 1062;

/// A duplicate key, a deadlock, a lock that took too long (which undoes no more than its statement: all else has to be undone by hand), and
/// a row that was changed since it was read.
const RACES: [u16; 4] = [DUPLICATE, 1213, 1205, 1020];

/// The session was killed or timed out, the server shuts down, or a packet was too large.
const ENDINGS: [u16; 12] = [1053, 1080, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1927, 3169, 4031];

/// An answer that was lost.
pub(crate) fn lost(why: &str) -> Error {
    let message = format!("the answer of the MySQL server was lost, it may or may not have committed: {why}");
    Error::new(Kind::Indeterminate, message)
}

/// No connection.
pub(crate) fn unreachable(why: &str) -> Error {
    let message = format!(
        "the MySQL server cannot be reached: {why}; see whether it runs, and the address in the store's URL"
    );
    Error::new(Kind::Unavailable, message)
}

/// A value that is not what the tables promise.
pub(crate) fn unreadable(what: &str) -> Error {
    let message = format!(
        "the tables amends_… hold {what}; look whether something else writes to them, or restore a backup"
    );
    Error::new(Kind::Corrupt, message)
}

fn said(code: u16, message: &str) -> Error {
    let (kind, remedy) = match code {
        // Out of space, in its own files or in a table space of fixed size.
        1021 | 1026 | 1114 | 1878 | 3675 => {
            (Kind::Unwritable, "its disk is full: free space there, then the store goes on by itself")
        }
        // What went wrong in the storage engine is in the words: 28 and 122 are a full disk and a quota.
        1030 if message.contains("error 28") || message.contains("error 122") => {
            (Kind::Unwritable, "its disk is full: free space there, then the store goes on by itself")
        }
        1030 | 1005 | 1015 => (Kind::Unwritable, "its disk fails: see the server's log"),
        1290 | 1792 | 1836 | 3100 => {
            let remedy = "it takes no writes: it is a replica, or read_only is on; name the primary in the store's URL";
            (Kind::Unwritable, remedy)
        }
        1044 | 1142 | 1143 | 1227 | 1370 => {
            (Kind::Unwritable, "give the user all rights on the database that the store's URL names")
        }
        1045 | 1130 | 1251 | 1698 | 1820 | 1862 | 3118 | 3955 | 4151 => {
            (Kind::Unwritable, "correct user and password in the store's URL, or the rights of that user")
        }
        1046 | 1049 => (Kind::Refused, "make the database, or correct its name in the store's URL"),
        1153 => (Kind::Refused, "max_allowed_packet was lowered: raise it again"),
        1034 | 1035 | 1048 | 1054 | 1064 | 1136 | 1146 | 1264 | 1364 | 1366 | 1406 | 1690 | 1712 | 1877
        | 1932 => {
            let remedy = "its tables are damaged or were changed: see the server's log, and restore a backup if need be";
            (Kind::Corrupt, remedy)
        }
        // Starting up, too many connections, out of memory, a lock or a statement that took too long.
        _ => (Kind::Unavailable, "try again; see the server's log if it stays so"),
    };
    Error::new(kind, format!("the MySQL server says: {message} ({code}): {remedy}"))
}
