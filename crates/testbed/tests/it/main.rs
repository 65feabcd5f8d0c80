//! The servers that tests rely on.

mod mariadb;
