//! A service's own connection to its database: nothing but SQL.

use std::path::Path;
use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use tokio::runtime::Runtime;
use tokio_postgres::SimpleQueryMessage;

/// A connection.
pub(crate) enum Sql {
    Postgres(Runtime, tokio_postgres::Client),
    MariaDb(Runtime, Box<mysql_async::Conn>),
    Sqlite(rusqlite::Connection),
}

impl Sql {
    pub(crate) fn postgres(url: &str) -> Self {
        let runtime = runtime();
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            client
        });
        Self::Postgres(runtime, client)
    }

    pub(crate) fn mariadb(url: &str) -> Self {
        let runtime = runtime();
        let opts = mysql_async::Opts::from_url(url).unwrap();
        let conn = runtime.block_on(mysql_async::Conn::new(opts)).unwrap();
        Self::MariaDb(runtime, Box::new(conn))
    }

    pub(crate) fn sqlite(path: &Path) -> Self {
        let conn = rusqlite::Connection::open(path).unwrap();
        conn.busy_timeout(Duration::from_secs(60)).unwrap();
        Self::Sqlite(conn)
    }

    /// Runs one statement; gives how many rows it changed.
    pub(crate) fn run(&mut self, sql: &str) -> Result<u64, String> {
        match self {
            Self::Postgres(runtime, client) => {
                let answers = runtime.block_on(client.simple_query(sql));
                let answers =
                    answers.map_err(|e| e.as_db_error().map_or(e.to_string(), ToString::to_string))?;
                Ok(answers
                    .iter()
                    .map(|a| if let SimpleQueryMessage::CommandComplete(n) = a { *n } else { 0 })
                    .sum())
            }
            Self::MariaDb(runtime, conn) => runtime.block_on(async {
                let answer = conn.query_iter(sql).await.map_err(|e| e.to_string())?;
                let changed = answer.affected_rows();
                answer.drop_result().await.map_err(|e| e.to_string())?;
                Ok(changed)
            }),
            Self::Sqlite(conn) => {
                let mut statement = conn.prepare(sql).map_err(|e| e.to_string())?;
                if statement.column_count() == 0 {
                    return statement.execute([]).map(|n| n as u64).map_err(|e| e.to_string());
                }
                let mut rows = statement.query([]).map_err(|e| e.to_string())?;
                while rows.next().map_err(|e| e.to_string())?.is_some() {}
                Ok(0)
            }
        }
    }

    /// The first column of the first row, as text; empty if there is none.
    pub(crate) fn ask(&mut self, sql: &str) -> String {
        match self {
            Self::Postgres(runtime, client) => {
                let answers = runtime.block_on(client.simple_query(sql)).unwrap();
                let row = answers
                    .iter()
                    .find_map(|a| if let SimpleQueryMessage::Row(row) = a { Some(row) } else { None });
                row.and_then(|row| row.get(0)).unwrap_or_default().to_owned()
            }
            Self::MariaDb(runtime, conn) => {
                let row: Option<mysql_async::Value> = runtime.block_on(conn.query_first(sql)).unwrap();
                row.map(|value| value.as_sql(true).trim_matches('\'').to_owned()).unwrap_or_default()
            }
            Self::Sqlite(conn) => {
                let value = conn.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0)).unwrap();
                match value {
                    rusqlite::types::Value::Integer(number) => number.to_string(),
                    rusqlite::types::Value::Text(text) => text,
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// Runs a block of statements as a program does: a statement that has to change one row and does not, or fails, is followed by ROLLBACK.
    /// True: it came to its end.
    pub(crate) fn block(&mut self, block: &str) -> Result<bool, String> {
        let is_transaction = block.contains("COMMIT");
        for line in block.lines().filter(|line| !line.trim().is_empty()) {
            let (statement, remark) = line.split_once("; -- ").unwrap_or((line.trim_end_matches(';'), ""));
            let wants_one = match remark {
                "" => false,
                "one row, or ROLLBACK" => true,
                other => panic!("what does {other:?} mean?"),
            };
            let stop = match self.run(statement) {
                Ok(changed) if wants_one && changed != 1 => Ok(false),
                Ok(_) => continue,
                Err(error) => Err(error),
            };
            if is_transaction {
                self.run("ROLLBACK").unwrap();
            }
            return stop;
        }
        Ok(true)
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}
