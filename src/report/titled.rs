//! Tables with titles, as a report collects them.

use super::model::Method;
use prepose_draw::table::{Cell, Table};

/// A table with what is said about it.
pub struct Titled {
    /// Above it.
    pub title: &'static str,
    /// Below its title: where it comes from, and what its columns are.
    pub note: String,
    /// Itself.
    pub table: Table,
}

/// Tables as they are added; those without rows are left out.
#[derive(Default)]
pub(crate) struct Tables(Vec<Titled>);

impl Tables {
    pub fn add(&mut self, title: &'static str, note: &str, table: Table) {
        if !table.rows.is_empty() {
            self.0.push(Titled {
                title,
                note: note.into(),
                table,
            });
        }
    }

    pub fn into_all(self) -> Vec<Titled> {
        self.0
    }
}

/// A method in a table's first column.
pub(crate) fn name(method: &Method) -> Cell {
    Cell::Name(method.name.clone())
}
