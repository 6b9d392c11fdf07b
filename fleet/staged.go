package fleet

import "time"

// StagedChange is a change that one node tries before all others, as that node has it. See package discovery/etcd.
type StagedChange struct {
	Key       string    `json:"key"`                 // in the store, without the prefix
	Revision  int64     `json:"revision"`            // of the store, when it was put
	By        string    `json:"by"`                  // its author
	Since     time.Time `json:"since"`               // when the node took it up
	Documents []string  `json:"documents"`           // keys of those that the node reads, and that the change puts or deletes; sorted
	Unread    []string  `json:"unread,omitempty"`    // keys of those that the node does not read; sorted
	Problem   string    `json:"problem,omitempty"`   // why nothing of it is in force; empty if it is
	Deletions int       `json:"deletions,omitempty"` // how many of Documents it deletes
}
