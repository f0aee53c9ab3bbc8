module example.org/balances

go 1.19
