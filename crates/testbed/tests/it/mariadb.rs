//! One MariaDB server a test.

use amends_testbed::mariadb::MariaDb;

#[test]
fn what_was_committed_outlives_a_kill_and_settings_can_change_with_it() {
    let mut server = MariaDb::start().unwrap();
    let (port, id) = (server.port(), server.process().id());
    server.ask("CREATE TABLE t (n INT PRIMARY KEY) ENGINE=InnoDB; INSERT INTO t VALUES (1), (2)").unwrap();
    server.kill();
    assert!(server.ask("SELECT 1").is_err());
    server.restart_with(&[("sync-binlog", "7")]).unwrap();
    assert_eq!(server.ask("SELECT n, @@sync_binlog FROM t ORDER BY n").unwrap(), "1\t7\n2\t7");
    assert_eq!(server.port(), port);
    assert_ne!(server.process().id(), id);
    // Its user owns its database, and nothing else.
    assert_eq!(server.ask("SELECT count(*) FROM mysql.db WHERE user = 'amends'").unwrap(), "1");
    assert_eq!(server.ask("SELECT @@innodb_flush_log_at_trx_commit").unwrap(), "1");
}
