package node

import (
	"errors"
	"net/http"
	"testing"

	"colonnade/admin/api"
	"colonnade/discovery/engines"
)

// The name of a model that no request can have is the client's mistake.
func TestModelNameIsABadRequest(t *testing.T) {
	t.Parallel()
	var failed *api.Error
	if err := asAPIError(engines.ErrModelName); !errors.As(err, &failed) || failed.Status != http.StatusBadRequest || failed.Field != "model" {
		t.Errorf("got %+v", err)
	}
}
