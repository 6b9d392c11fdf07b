package fleet

import "time"

// WatchState is how fresh the table of a watcher is.
type WatchState struct {
	Revision         int64         // of the store, as far as it was followed; of files, how many changes came into force
	Age              time.Duration // since the store last sent anything; of files, since they could last be looked at
	Tables           uint64        // built since the start
	Rejected         []Rejection
	Conflicts        []Conflict
	PendingDeletions []string // see [StoreState]
	HeldDeletions    []HeldDeletion
	ExpiredLeases    []string
	Staged           *StagedChange // nil = none
}
