// Balances: statekv inside a Go program through cgo; ../c/balances.c in Go.
//
//	CGO_CFLAGS="$(pkg-config --cflags statekv)" CGO_LDFLAGS="$(pkg-config --libs statekv)" go build
//	./balances rocksdb:data
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"example.org/balances/statekv"
)

func transfer(db *statekv.DB, accounts *statekv.Space, from, to string, amount int) error {
	batch, err := db.NewBatch()
	if err != nil {
		return err
	}
	defer batch.Free()
	for i, name := range []string{from, to} {
		value, found, err := accounts.Get([]byte(name))
		if err != nil {
			return err
		}
		balance := 0
		if found {
			if balance, err = strconv.Atoi(string(value)); err != nil {
				return err
			}
		}
		if i == 0 {
			balance -= amount
		} else {
			balance += amount
		}
		batch.Put(accounts, []byte(name), []byte(strconv.Itoa(balance)))
	}
	return batch.Commit(true)
}

func run(place string) error {
	driver, dir, found := strings.Cut(place, ":")
	if !found {
		return fmt.Errorf("%s is not DRIVER:FOLDER", place)
	}
	db, err := statekv.Open(driver, dir)
	if err != nil {
		return err
	}
	accounts, err := db.Space("accounts")
	if err == nil {
		err = transfer(db, accounts, "bank", "user/alice", 100)
	}
	if err == nil {
		err = transfer(db, accounts, "user/alice", "user/bob", 30)
	}
	if err == nil {
		err = accounts.Walk([]byte("user/"), func(key, value []byte) {
			fmt.Printf("%s %s\n", key, value)
		})
	}
	if closed := db.Close(); err == nil {
		err = closed
	}
	return err
}

func main() {
	place := "memory:"
	if len(os.Args) > 1 {
		place = os.Args[1]
	}
	if err := run(place); err != nil {
		fmt.Fprintln(os.Stderr, "balances:", err)
		os.Exit(1)
	}
}
