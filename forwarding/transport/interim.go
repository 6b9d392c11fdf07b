package transport

import (
	"fmt"
	"time"

	"colonnade/forwarding/hop"
)

const (
	// maxInterim bounds the 1xx answers before the real one. From a node of ours that was asked for them, as many more
	// may come in each second.
	maxInterim = 8
	// maxInterimHead bounds, in bytes, each of them that carries a progress.
	maxInterimHead = 512
)

// interimLimiter are the interim answers before one real answer.
type interimLimiter struct {
	onProgress func(hop.Progress) // nil = they were not asked for
	began      time.Time          // zero without tell
	count      int
}

// add takes one more, or says why it is one too many.
func (i *interimLimiter) add(h *head, size int) error {
	most := maxInterim
	if i.onProgress != nil {
		most += int(maxInterim * time.Since(i.began).Seconds())
	}
	if i.count++; i.count > most {
		return fmt.Errorf("%w: more than %d interim answers", errMalformed, most)
	}
	said := h.get(hop.HeaderProgress)
	if i.onProgress == nil || said == "" {
		return nil
	}
	if size > maxInterimHead {
		return fmt.Errorf("%w: interim answer over %d bytes", errMalformed, maxInterimHead)
	}
	p, err := hop.ParseProgress(said)
	if err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	i.onProgress(p)
	return nil
}
