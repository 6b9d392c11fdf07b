package problems

import "colonnade/fleet"

// Scope says which documents a table does not have.
type Scope struct {
	// Unseen are the kinds of documents that the table lacks because its node does not watch them.
	Unseen []fleet.Kind
	// Rejected are the keys of documents that are not in the table, since they are not valid. Nothing is reported as missing that
	// one of them may have.
	Rejected []string
}

// OfTable returns what the documents of a table make impossible, or hardly intend: errors first. Of a model that cannot be served, the subject is
// the key of the model and the kind is reasons.ModelWithoutEndpoint or reasons.ModelWithoutRoute; reasons.StoreEmpty, NoModel and NoColo
// concern all models.
func OfTable(t *fleet.Table, scope Scope) []Problem {
	l := &List{}
	return l.All()
}
