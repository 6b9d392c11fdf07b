package document

import "colonnade/fleet"

// checkIssuer refuses an issuer whose keys cannot be found.
func checkIssuer(i *fleet.Issuer) *fieldError {
	switch {
	case i.JWKS == "" && !fleet.IsKeySetURL(i.Issuer):
		return &fieldError{Field: "jwks", Reason: "is missing: issuer is no https URL (or http URL of a loopback address) at which the key set could be found"}
	case i.Algorithms != nil && len(i.Algorithms) == 0:
		return &fieldError{Field: "algorithms", Reason: "must not be empty: no token would be valid"}
	}
	return nil
}
