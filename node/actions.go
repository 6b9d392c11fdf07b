package node

import (
	"context"
	"errors"
	"net"
	"net/http"

	"colonnade/admin/api"
	"colonnade/discovery/engines"
)

// actions returns what the admin API can have the node do. Some parts of the node are made only later.
func (r *runtime) actions() api.Actions {
	return api.Actions{
		Node:    r.nodeState,
		Drain:   func(by string, force bool) error { return asAPIError(r.maintenance.Drain(by, force)) },
		Undrain: func(by string) error { return asAPIError(r.maintenance.Undrain(by)) },
		Load: func(ctx context.Context, l api.Loading) (api.Loaded, error) {
			done, err := r.load(ctx, l)
			return done, asAPIError(err)
		},
	}
}

// isTimeout reports whether an engine has not answered in time.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// asAPIError returns an error of an action as the admin API answers it.
func asAPIError(err error) error {
	if err == nil {
		return nil
	}
	failed := &api.Error{Status: http.StatusBadGateway, Message: err.Error()}
	var last *LastNodeError
	var elsewhere *MisdirectedError
	var missing *NoEndpointError
	var unsupported *engines.UnsupportedError
	switch {
	case errors.As(err, &last):
		failed.Status = http.StatusConflict
		failed.Message += "; repeat this with ?force=true if it is intended"
	case errors.Is(err, ErrUnchecked):
		failed.Status = http.StatusServiceUnavailable
		failed.Message += "; repeat this with ?force=true if another node takes over"
	case errors.Is(err, ErrEnding), errors.As(err, &elsewhere):
		failed.Status = http.StatusConflict
	case errors.Is(err, ErrNotServing):
		failed.Status = http.StatusServiceUnavailable
	case errors.Is(err, engines.ErrModelName):
		failed.Status, failed.Field = http.StatusBadRequest, "model"
	case errors.As(err, &missing):
		failed.Status = http.StatusNotFound
	case errors.As(err, &unsupported):
		failed.Status = http.StatusNotImplemented
	case isTimeout(err):
		failed.Status = http.StatusGatewayTimeout
	}
	return failed
}
