package onebox_test

import (
	"testing"

	"colonnade/internal/testkit"
)

// awaitGateway waits until requests are served.
func awaitGateway(b *testing.B, name, address string) {
	b.Helper()
	testkit.WaitFor(b, name+" to serve", func() bool {
		status, _, _ := testkit.Post("http://"+address+"/v1/chat/completions", `{"model":"m","messages":[]}`, "Content-Type", "application/json")
		return status == 200
	})
}
