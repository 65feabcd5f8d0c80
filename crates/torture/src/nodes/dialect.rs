//! What the same questions look like in each database.

use anyhow::{Result, bail};

use crate::servers::{Kind, Servers};

/// How a database writes down who wrote which entry, and what its tables are called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dialect {
    begin: &'static str,
    /// What stands for each word in braces of a question.
    words: [(&'static str, &'static str); 6],
}

/// The name of the session is the node's, and the life it is in.
const POSTGRES: Dialect = Dialect {
    begin: r#"
    CREATE SCHEMA torture;
    CREATE TABLE torture.wrote (saga bigint, seq bigint, node text, kind text, epoch bigint, PRIMARY KEY (saga, seq));
    CREATE FUNCTION torture.note() RETURNS trigger LANGUAGE plpgsql AS $note$
        DECLARE body text := convert_from(NEW.body, 'UTF8'); word text := substring(body from '^[{"]+(\w+)');
        BEGIN
            INSERT INTO torture.wrote VALUES (NEW.saga, NEW.seq, current_setting('application_name'), word,
                CASE word WHEN 'taken_over' THEN (body::json->'taken_over'->>'epoch')::bigint END);
            RETURN NULL;
        END $note$;
    CREATE TRIGGER note AFTER INSERT ON amends.entry FOR EACH ROW EXECUTE FUNCTION torture.note();
"#,
    words: [
        ("{saga}", "amends.saga"),
        ("{entry}", "amends.entry"),
        ("{node}", "amends.node"),
        ("{wrote}", "torture.wrote"),
        ("{now}", "amends.now_ms()"),
        ("{bytes}", "bytea"),
    ],
};

/// The user is the node, and the life it is in.
const MARIADB: Dialect = Dialect {
    begin: r#"
    CREATE TABLE torture_wrote (saga BIGINT UNSIGNED, seq BIGINT UNSIGNED, node VARCHAR(100), kind VARCHAR(100), epoch BIGINT UNSIGNED,
        PRIMARY KEY (saga, seq));
    CREATE TRIGGER torture_note AFTER INSERT ON amends_entry FOR EACH ROW INSERT INTO torture_wrote VALUES (NEW.saga, NEW.seq,
        SUBSTRING_INDEX(USER(), '@', 1), REGEXP_SUBSTR(CONVERT(NEW.body USING utf8mb4), '[a-z_]+'),
        JSON_VALUE(CONVERT(NEW.body USING utf8mb4), '$.taken_over.epoch'));
"#,
    words: [
        ("{saga}", "amends_saga"),
        ("{entry}", "amends_entry"),
        ("{node}", "amends_node"),
        ("{wrote}", "torture_wrote"),
        ("{now}", "FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)"),
        ("{bytes}", "BINARY"),
    ],
};

impl Dialect {
    /// # Errors
    /// If the servers have none.
    pub(super) fn of(servers: &Servers) -> Result<Self> {
        Ok(match servers.kind {
            Kind::Postgres => POSTGRES,
            Kind::MariaDb => MARIADB,
            Kind::Redis => bail!("Redis does not write down who wrote what"),
        })
    }

    /// What makes the database write down who writes what.
    pub(super) fn begin(self) -> &'static str {
        self.begin
    }

    /// The question as this database understands it.
    pub(super) fn ask(self, question: &str) -> String {
        self.words.iter().fold(question.to_owned(), |sql, (word, name)| sql.replace(word, name))
    }
}

/// The URL by which a node in its so manieth life connects, so that the database can tell who it is. `database`: as the server gives it.
///
/// # Errors
/// If the database does not let it in.
pub(super) fn url_of(servers: &Servers, database: &str, node: &str, life: u32) -> Result<String> {
    let name = format!("{node}-life-{life}");
    Ok(match servers.kind {
        Kind::Redis => database.to_owned(),
        Kind::Postgres => format!("{database}?application_name={name}"),
        Kind::MariaDb => {
            servers.sql(&format!(
                "CREATE USER IF NOT EXISTS '{name}'@'%' IDENTIFIED BY 'amends'; GRANT ALL ON amends.* TO '{name}'@'%'"
            ))?;
            database.replace("//amends:", &format!("//{name}:"))
        }
    })
}
