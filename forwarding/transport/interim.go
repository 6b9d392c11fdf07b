package transport

import (
	"fmt"
	"time"

	"colonnade/forwarding/hop"
)

const (
	// maxInterim is the highest number of interim responses before the final one. A node that was asked for them may send as many
	// again each second.
	maxInterim = 8
	// maxInterimHead is the size limit, in bytes, of an interim response with a progress.
	maxInterimHead = 512
)

// interimLimiter counts the interim responses of one exchange.
type interimLimiter struct {
	onProgress func(hop.Progress) // nil = not asked for
	began      time.Time          // zero without onProgress
	count      int
}

// add counts an interim response, and returns an error if there are too many, or if it is malformed.
func (i *interimLimiter) add(h *head, size int) error {
	most := maxInterim
	if i.onProgress != nil {
		most += int(maxInterim * time.Since(i.began).Seconds())
	}
	if i.count++; i.count > most {
		return fmt.Errorf("%w: more than %d interim responses", errMalformed, most)
	}
	value := h.get(hop.HeaderProgress)
	if i.onProgress == nil || value == "" {
		return nil
	}
	if size > maxInterimHead {
		return fmt.Errorf("%w: interim response over %d bytes", errMalformed, maxInterimHead)
	}
	p, err := hop.ParseProgress(value)
	if err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	i.onProgress(p)
	return nil
}
