package change

import (
	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
)

// Difference is what a change does to one document.
type Difference struct {
	Key    string
	Action string // as in a change of the history
	Fields []document.Difference
	Note   string // why there are no fields, if there are none
}

// Differences returns what a change does to documents, without those that it leaves as they are.
func Differences(before []etcd.Stored, e etcd.Edit) (all []Difference) {
	for _, d := range e.Put {
		old, there := WithKey(before, d.Key)
		action := etcd.ActionCreated
		if there {
			action = etcd.ActionChanged
		}
		next := NewDifference(d.Key, action, old.Value, d.Value)
		if there && len(next.Fields) == 0 && next.Note == "" {
			continue // but for comments and style
		}
		all = append(all, next)
	}
	for _, key := range e.Delete {
		if old, there := WithKey(before, key); there {
			all = append(all, NewDifference(key, etcd.ActionDeleted, old.Value, nil))
		}
	}
	return all
}

// NewDifference returns what an action does to the document of a key.
func NewDifference(key, action string, before, after []byte) Difference {
	switch action { // an empty document is another thing than none
	case etcd.ActionCreated:
		before = nil
	case etcd.ActionDeleted:
		after = nil
	}
	d := Difference{Key: key, Action: action}
	fields, err := document.Differences(key, before, after)
	switch {
	case err != nil:
		d.Note = "the version before cannot be read"
	case action != etcd.ActionDeleted:
		d.Fields = fields
	}
	return d
}
