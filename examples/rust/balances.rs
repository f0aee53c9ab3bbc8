//! Balances: statekv inside a Rust program; ../c/balances.c in Rust.
//!
//!     rustc --edition 2021 --crate-type rlib statekv.rs
//!     rustc --edition 2021 --extern statekv=libstatekv.rlib $(pkg-config --libs statekv) balances.rs
//!     ./balances rocksdb:data

use std::process::ExitCode;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Move `amount` from one account to another: both balances change, or none.
fn transfer(db: &statekv::Db, accounts: statekv::Space<'_>, from: &str, to: &str,
            amount: i64) -> Outcome<()> {
    let mut batch = db.batch()?;
    for (name, change) in [(from, -amount), (to, amount)] {
        let balance = match accounts.get(name.as_bytes())? {
            Some(value) => String::from_utf8(value)?.parse()?,
            None => 0i64,
        };
        batch.put(accounts, name.as_bytes(), (balance + change).to_string().as_bytes());
    }
    Ok(batch.commit(true)?)
}

fn run(place: &str) -> Outcome<()> {
    let (driver, dir) =
        place.split_once(':').ok_or_else(|| format!("{} is not DRIVER:FOLDER", place))?;
    let db = statekv::Db::open(driver, dir)?;
    let accounts = db.space("accounts")?;
    transfer(&db, accounts, "bank", "user/alice", 100)?;
    transfer(&db, accounts, "user/alice", "user/bob", 30)?;
    accounts.walk(b"user/", |key, value| {
        println!("{} {}", String::from_utf8_lossy(key), String::from_utf8_lossy(value));
    })?;
    Ok(())
}

fn main() -> ExitCode {
    let place = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    match run(&place) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("balances: {}", error);
            ExitCode::FAILURE
        }
    }
}
