package bench

import (
	"crypto/rand"
	"fmt"
)

// The accounts of a run. All have the same weight and priority, but for those named after theirs.
const (
	teamCount    = 8
	quietCount   = 3
	floodAccount = "flooder"
	heavyAccount = "heavy"
)

func team(i int) string  { return fmt.Sprintf("team-%d", i+1) }
func quiet(i int) string { return fmt.Sprintf("quiet-%d", i+1) }

// named returns n names.
func named(n int, name func(int) string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = name(i)
	}
	return all
}

var (
	priorityAccounts = []string{"interactive", "standard", "batch"} // named after their priority
	weightAccounts   = []string{"gold", "silver", "bronze"}
	weights          = []int{6, 3, 1} // of weightAccounts
)

// newAccounts returns all accounts, with new keys.
func newAccounts() []Account {
	names := append(append(named(teamCount, team), named(quietCount, quiet)...), floodAccount, heavyAccount)
	var all []Account
	for _, name := range names {
		all = append(all, Account{Name: name, Key: newKey(name), Weight: 1, Priority: "standard"})
	}
	for _, name := range priorityAccounts {
		all = append(all, Account{Name: name, Key: newKey(name), Weight: 1, Priority: name})
	}
	for i, name := range weightAccounts {
		all = append(all, Account{Name: name, Key: newKey(name), Weight: weights[i], Priority: "standard"})
	}
	return all
}

// newKey makes an API key in Colonnade's form. Other gateways take any.
func newKey(name string) string { return "cn_" + name + "_" + rand.Text() }
