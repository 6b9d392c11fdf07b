package admission_test

import (
	"testing"

	"colonnade/admission"
	"colonnade/balance"
)

// Metrics name policies as documents do.
func TestPoliciesHaveTheNamesOfDocuments(t *testing.T) {
	if got, want := len(admission.Policies()), len(balance.Policies()); got != want {
		t.Errorf("documents have %d of %d policies", got, want)
	}
	for name, p := range admission.Policies() {
		if p.String() != name {
			t.Errorf("%q is called %q in metrics", name, p)
		}
	}
}
