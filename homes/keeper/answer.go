package keeper

import (
	"slices"
	"time"

	"colonnade/homes"
)

// Answer answers another server of the colo. about is the boot id of the process whose record it asks about, or empty.
func (k *Keeper) Answer(asker homes.Process, about string) homes.Answer {
	a := homes.Answer{
		Boot: k.config.Self.Boot, Ended: k.config.Ended, Reaches: time.Since(k.config.Confirmed()) < storeSilence, Drains: k.config.Drains(),
	}
	a.MayGrant = k.config.MayGrant()
	if k.answer(&a, asker, about == a.Boot) {
		// The answer must stay true: only another registration gives the process rights again.
		k.config.Forget()
	}
	return a
}

// answer completes an answer to asker. aboutSelf means that the question was about this process's record. It reports whether this process
// must register again.
func (k *Keeper) answer(a *homes.Answer, asker homes.Process, aboutSelf bool) (registerAgain bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.orphans.Alive(asker, now)
	if aboutSelf {
		k.vouchers.Questioned(now)
		k.vouchedUntil.Store(new(time.Time))
		if !a.MayGrant {
			k.ownership.Lose()
			k.setReplacedLocked(true)
			k.grantLocked()
			registerAgain = true
		}
	}
	if a.MayGrant {
		for url := range k.ownership.Shares() {
			a.Grants = append(a.Grants, url)
		}
		slices.Sort(a.Grants)
	}
	a.Held = k.config.Held()
	return registerAgain
}
