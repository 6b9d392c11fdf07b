package fleet

// Deletions confirms deletions that nodes hold back because there were too many at once.
type Deletions struct {
	// Revision of the store up to which deletions are meant.
	Confirmed int `json:"confirmed" range:"0,9223372036854775807" need:"yes"`
}
