package permits

import (
	"cmp"
	"slices"
	"strings"

	"colonnade/fairqueue"
)

// topAccount is an account, and how many requests it had running and waiting when it was looked at.
type topAccount struct {
	fairqueue.Account
	total int
}

func newTopAccount(a fairqueue.Account) topAccount { return topAccount{a, a.Running() + a.Waiting()} }

func (t topAccount) compare(other topAccount) int {
	return cmp.Or(cmp.Compare(other.total, t.total), strings.Compare(t.Name(), other.Name()))
}

// topAccounts are the accounts with the most requests of all that were added, most first, equals by name.
type topAccounts []topAccount

// add keeps at most so many. Accounts come in the random order of a map, so nearly all are behind the last that is kept,
// which takes one comparison; and no client can have them come in the order that costs most.
func (l *topAccounts) add(t topAccount, limit int) {
	if len(*l) >= limit {
		if limit <= 0 || t.compare((*l)[limit-1]) >= 0 {
			return
		}
		*l = (*l)[:limit-1]
	}
	at, _ := slices.BinarySearchFunc(*l, t, topAccount.compare)
	*l = slices.Insert(*l, at, t)
}

// refreshed is in order by what the accounts have now, which may have changed since they were added.
func (l topAccounts) refreshed() topAccounts {
	var now topAccounts
	for _, t := range l {
		if t = newTopAccount(t.Account); t.total > 0 {
			now = append(now, t)
		}
	}
	slices.SortFunc(now, topAccount.compare)
	return now
}
