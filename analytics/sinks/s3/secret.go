package s3

import (
	"errors"
	"strings"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// secret is the credential of the description, which is read for each request.
type secret struct{ read func() (string, error) }

// secretError says that the secret could not be read.
type secretError struct{ err error }

func (e secretError) Error() string { return e.err.Error() }

// RetrieveWithCredContext implements credentials.Provider.
func (s *secret) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	text, err := s.read()
	if err != nil {
		return credentials.Value{}, secretError{err}
	}
	id, key, ok := strings.Cut(text, ":")
	if !ok || id == "" || key == "" {
		return credentials.Value{}, secretError{errors.New("credential: must be ACCESS_KEY_ID:SECRET_ACCESS_KEY")}
	}
	return credentials.Value{AccessKeyID: id, SecretAccessKey: key, SignerType: credentials.SignatureV4}, nil
}

// Retrieve implements credentials.Provider.
func (s *secret) Retrieve() (credentials.Value, error) { return s.RetrieveWithCredContext(nil) }

// IsExpired implements credentials.Provider.
func (s *secret) IsExpired() bool { return true }
