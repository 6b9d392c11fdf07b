package colo

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"colonnade/admission"
	"colonnade/discovery/engines/figures"
	"colonnade/fleet"
	"colonnade/forwarding/server"
)

// maxMetrics bounds the metrics of an engine, in bytes: each rank of a data-parallel server adds some tens of KiB. They are read piece by
// piece, and never held as a whole.
const maxMetrics = 4 << 20

// readFigures reads the metrics of an engine, until the deadline of ctx. A panic is our fault, and not the engine's.
func (s *Server) readFigures(ctx context.Context, e *fleet.Endpoint) (f figures.Figures, err error) {
	defer func() {
		if server.LogPanic(s.config.Logger.With("endpoint", e.ID), "metrics of an engine", recover()) {
			err = fmt.Errorf("%w that this server can read", admission.ErrNoFigures)
		}
	}()
	var page figures.Reader
	path := e.MetricsPath()
	answer, err := s.exchangeTo(ctx, e, engineCall{method: http.MethodGet, path: path, atMost: maxMetrics}, func(piece []byte) {
		_, _ = page.Write(piece) // never fails
	})
	switch {
	case answer.Status >= 300 && noPage(answer.Status):
		return f, fmt.Errorf("%w: %s answered %d", admission.ErrNoFigures, path, answer.Status)
	case errors.Is(err, errLongAnswer):
		return f, fmt.Errorf("%w that are read: %s has more than %d MiB", admission.ErrNoFigures, path, maxMetrics>>20)
	case err != nil:
		return f, err
	case answer.Status != http.StatusOK:
		return f, fmt.Errorf("%s answered %d", path, answer.Status)
	case answer.NotAPI:
		return f, fmt.Errorf("%w: %s has something else", admission.ErrNoFigures, path)
	}
	return page.Figures(), nil
}

// noPage reports whether a status says that the engine has no metrics for us, and not that it cannot answer now: llama.cpp answers 501
// without --metrics, and engines with keys 401 or 403.
func noPage(status int) bool {
	return status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout || status == http.StatusNotImplemented
}
