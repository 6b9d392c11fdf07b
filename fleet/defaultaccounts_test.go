package fleet_test

import (
	"fmt"
	"sync"
	"testing"

	"colonnade/fleet"
)

// Accounts without a document have the defaults and their own names, also if several goroutines ask for them at once.
func TestAccountsWithoutDocuments(t *testing.T) {
	table := fleet.NewTable(fleet.Contents{
		Accounts: fleet.NewAccountIndex([]*fleet.Account{{Name: "a-1", Weight: 7}}), DefaultAccount: fleet.Account{Name: "default", Weight: 3},
	})
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for i := range 2000 { // more than are kept
				name, want := fmt.Sprint("a-", i%1000), 3
				if name == "a-1" {
					want = 7
				}
				if a := table.AccountOrDefault(name); a.Name != name || a.Weight != want {
					t.Errorf("%q has the weight %d, and is called %q", name, a.Weight, a.Name)
				}
			}
		})
	}
	asking.Wait()
	if first, second := table.AccountOrDefault("b"), table.AccountOrDefault("b"); first != second {
		t.Error("an account is made for each request")
	}
	if _, ok := table.Account("b"); ok {
		t.Error("an account without a document has one")
	}
}
