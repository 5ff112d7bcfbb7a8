//! The part of `turso` that `cubecl-environment` uses, over SQLite: see README.md.
//!
//! The functions are `async` because the originals are; they do their work when they are first polled and never wait.

mod value;

pub mod transaction;

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{ErrorCode, OpenFlags, ffi, params_from_iter};
pub use value::{FromValue, IntoParams, IntoValue, Value};

/// What can go wrong in the database, told apart as far as the caller does.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another connection holds the lock, for longer than the busy timeout.
    #[error("{0}")]
    Busy(String),
    /// Another connection wrote since this one's transaction began reading.
    #[error("{0}")]
    BusySnapshot(String),
    /// A value of another type than asked for.
    #[error("Conversion failure: `{0}`")]
    ConversionFailure(String),
    /// A file or folder could not be used.
    #[error("I/O error ({1}): {0}")]
    IoError(std::io::ErrorKind, &'static str),
    /// Everything else, in SQLite's words.
    #[error("{0}")]
    Error(String),
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let message = error.to_string();
        match &error {
            rusqlite::Error::SqliteFailure(failure, _)
                if failure.extended_code == ffi::SQLITE_BUSY_SNAPSHOT =>
            {
                Error::BusySnapshot(message)
            }
            rusqlite::Error::SqliteFailure(failure, _)
                if matches!(
                    failure.code,
                    ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked
                ) =>
            {
                Error::Busy(message)
            }
            _ => Error::Error(message),
        }
    }
}

/// Opens a [`Database`].
#[derive(Debug)]
pub struct Builder {
    path: PathBuf,
    read_only: bool,
}

impl Builder {
    /// A database in the file at `path`, which is made if it does not exist.
    pub fn new_local(path: &str) -> Self {
        Self {
            path: path.into(),
            read_only: false,
        }
    }

    /// Whether to open the file for reading only.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// SQLite's locks hold between processes anyway.
    pub fn experimental_multiprocess_wal(self, _: bool) -> Self {
        self
    }

    /// SQLite can always vacuum.
    pub fn experimental_vacuum(self, _: bool) -> Self {
        self
    }

    /// Opens the file once, so that what cannot be opened is known now.
    pub async fn build(self) -> Result<Database, Error> {
        let database = Database {
            path: self.path,
            read_only: self.read_only,
        };
        database.connect()?;
        Ok(database)
    }
}

/// A file, and how it is opened.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    read_only: bool,
}

impl Database {
    /// A connection of its own.
    pub fn connect(&self) -> Result<Connection, Error> {
        let access = if self.read_only {
            OpenFlags::SQLITE_OPEN_READ_ONLY
        } else {
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
        };
        // One connection is never used by two threads at once: it is not `Sync`.
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let inner = rusqlite::Connection::open_with_flags(&self.path, flags)?;
        Ok(Connection { inner })
    }
}

/// A connection to a [`Database`].
#[derive(Debug)]
pub struct Connection {
    inner: rusqlite::Connection,
}

impl Connection {
    /// Runs a statement; the count of rows that it changed.
    pub async fn execute(
        &self,
        sql: impl AsRef<str>,
        params: impl IntoParams,
    ) -> Result<u64, Error> {
        let changed = self
            .inner
            .execute(sql.as_ref(), params_from_iter(params.into_params()))?;
        Ok(changed as u64)
    }

    /// Runs a query.
    pub async fn query(
        &self,
        sql: impl AsRef<str>,
        params: impl IntoParams,
    ) -> Result<Rows, Error> {
        let mut statement = self.inner.prepare(sql.as_ref())?;
        let columns = statement.column_count();
        let mut found = statement.query(params_from_iter(params.into_params()))?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            let values = (0..columns).map(|i| row.get(i)).collect::<Result<_, _>>()?;
            rows.push(Row { values });
        }
        Ok(Rows {
            rows: rows.into_iter(),
        })
    }

    /// Runs `PRAGMA name`, with each row that it answers.
    pub async fn pragma_query<F>(&self, name: &str, mut each: F) -> Result<(), Error>
    where
        F: FnMut(&Row) -> Result<(), Error>,
    {
        let mut rows = self.query(format!("PRAGMA {name}"), ()).await?;
        while let Some(row) = rows.next().await? {
            each(&row)?;
        }
        Ok(())
    }

    /// How long a statement waits for another connection's lock.
    pub fn busy_timeout(&self, timeout: Duration) -> Result<(), Error> {
        Ok(self.inner.busy_timeout(timeout)?)
    }
}

/// The rows of a query.
#[derive(Debug)]
pub struct Rows {
    rows: std::vec::IntoIter<Row>,
}

impl Rows {
    /// The next row, or none.
    pub async fn next(&mut self) -> Result<Option<Row>, Error> {
        Ok(self.rows.next())
    }
}

/// One row of a query.
#[derive(Debug)]
pub struct Row {
    values: Vec<Value>,
}

impl Row {
    /// The value of a column, counted from 0.
    pub fn get<T: FromValue>(&self, column: usize) -> Result<T, Error> {
        let value = self.values.get(column);
        value
            .and_then(T::from_value)
            .ok_or_else(|| Error::ConversionFailure(format!("column {column} is {value:?}")))
    }
}
