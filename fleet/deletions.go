package fleet

// Deletions says which deletions of documents are meant, for those that nodes hold back because there were too many at
// once.
type Deletions struct {
	Confirmed int `json:"confirmed" range:"0,9223372036854775807" need:"yes"` // revision of the store; what was deleted up to it is meant
}
