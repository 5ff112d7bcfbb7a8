//! Transactions that are taken back unless they are committed.

use std::ops::Deref;

use crate::{Connection, Error};

/// When a transaction takes the lock for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionBehavior {
    /// At its first write.
    Deferred,
    /// When it begins.
    Immediate,
}

/// A transaction; dropping it takes back what was not committed.
#[derive(Debug)]
pub struct Transaction<'a> {
    connection: &'a Connection,
}

impl Connection {
    /// Begins a transaction.
    pub async fn transaction_with_behavior(
        &mut self,
        behavior: TransactionBehavior,
    ) -> Result<Transaction<'_>, Error> {
        let begin = match behavior {
            TransactionBehavior::Deferred => "BEGIN DEFERRED",
            TransactionBehavior::Immediate => "BEGIN IMMEDIATE",
        };
        self.inner.execute_batch(begin)?;
        Ok(Transaction { connection: self })
    }
}

impl Transaction<'_> {
    /// Makes what was done last.
    pub async fn commit(self) -> Result<(), Error> {
        Ok(self.connection.inner.execute_batch("COMMIT")?)
    }
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // Nothing is open any more after a commit, or after an error that ended the transaction itself.
        if !self.connection.inner.is_autocommit() {
            let _ = self.connection.inner.execute_batch("ROLLBACK");
        }
    }
}
