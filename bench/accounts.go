package bench

import (
	"crypto/rand"
	"fmt"
	"time"
)

// Who asks. All have the same weight and priority but for those whose name says otherwise.
const (
	teamCount    = 8
	floodAccount = "flooder"
	heavyAccount = "heavy"
	quietCount   = 3
)

func team(i int) string  { return fmt.Sprintf("team-%d", i+1) }
func quiet(i int) string { return fmt.Sprintf("quiet-%d", i+1) }

// named are n accounts.
func named(n int, name func(int) string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = name(i)
	}
	return all
}

// accounts are all accounts of a run, with new keys.
func accounts() []Account {
	names := append(append(named(teamCount, team), named(quietCount, quiet)...), floodAccount, heavyAccount)
	var all []Account
	for _, name := range names {
		all = append(all, Account{Name: name, Key: key(name), Weight: 1, Priority: "standard"})
	}
	for _, band := range priorityAccounts {
		all = append(all, Account{Name: band, Key: key(band), Weight: 1, Priority: band})
	}
	for i, name := range weightAccounts {
		all = append(all, Account{Name: name, Key: key(name), Weight: weights[i], Priority: "standard"})
	}
	return all
}

// priorityAccounts are accounts that are named after their priority.
var priorityAccounts = []string{"interactive", "standard", "batch"}

// weighted are accounts of the weights.
var (
	weightAccounts = []string{"gold", "silver", "bronze"}
	weights        = []int{6, 3, 1}
)

// key makes an API key in the form that Colonnade wants. Others take any.
func key(name string) string { return "cn_" + name + "_" + rand.Text() }

// queue is how much may wait. A queue of six times the slots is long enough that none runs dry by chance, and is served
// in six times the time of a request.
func (z preset) queue(long bool) Queue {
	slots := z.engines * z.slots
	q := Queue{Limit: 6 * slots, PerAccount: 2 * slots, MaxWait: 5 * time.Second}
	if long {
		q = Queue{Limit: 2 * z.clients, PerAccount: 2 * z.clients, MaxWait: 10 * time.Minute}
	}
	return q
}
