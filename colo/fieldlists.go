package colo

import (
	"sync"

	"colonnade/forwarding/transport"
)

// usualFields is how many header lines an engine gets at most, unless the model forwards more.
const usualFields = 8

// fieldLists keeps the memory of header lines for engines, which is needed until they are sent. Its methods may be called by several
// goroutines at once.
type fieldLists struct{ pool sync.Pool } // of *[]transport.Field

// get returns an empty list, to be put back once it is sent.
func (p *fieldLists) get() *[]transport.Field {
	if list, ok := p.pool.Get().(*[]transport.Field); ok {
		return list
	}
	list := make([]transport.Field, 0, usualFields)
	return &list
}

// put keeps the memory of a list for others, and forgets its lines.
func (p *fieldLists) put(list *[]transport.Field) {
	clear(*list)
	*list = (*list)[:0]
	p.pool.Put(list)
}
