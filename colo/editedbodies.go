package colo

import (
	"sync"

	"colonnade/openai"
)

// maxEdited is the largest body whose memory is kept for others, in bytes.
const maxEdited = 1 << 20

// editedBodies keeps the memory of bodies as engines get them, which is needed until they are sent. Its methods may be called by several
// goroutines at once.
type editedBodies struct{ pool sync.Pool } // of *[]byte

// apply returns the body that was peeked with an edit applied to it, and its memory, to be put back once the body is sent. It returns a body
// that the edit does not change as it is.
func (p *editedBodies) apply(body *openai.Body, raw []byte, e openai.Edit) ([]byte, *[]byte) {
	if !body.Changes(raw, e) {
		return raw, nil
	}
	memory := p.get()
	*memory = body.Splice((*memory)[:0], raw, e)
	return *memory, memory
}

// get returns memory for a body, to be put back once the body is sent.
func (p *editedBodies) get() *[]byte {
	if memory, ok := p.pool.Get().(*[]byte); ok {
		return memory
	}
	return new([]byte)
}

// put keeps memory that apply has returned for other bodies.
func (p *editedBodies) put(memory *[]byte) {
	if memory != nil && cap(*memory) <= maxEdited {
		p.pool.Put(memory)
	}
}
