package sinks

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// ReadCredential returns what a credential of a flag names: an environment variable or a file. A newline at the end of the file is not part
// of it. The error does not repeat the content.
func ReadCredential(credential string) (string, error) {
	kind, name, _ := strings.Cut(credential, ":")
	var value string
	switch kind {
	case "env":
		var set bool
		if value, set = os.LookupEnv(name); !set {
			return "", fmt.Errorf("credential=%s: the environment variable is not set", credential)
		}
	case "file":
		text, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("credential=%s: %w", credential, err)
		}
		value = strings.TrimRight(string(text), "\r\n")
	default:
		return "", errors.New("credential: must be env:NAME or file:PATH")
	}
	return value, CheckCredential(credential, value)
}

// CheckCredential refuses a value that cannot be sent.
func CheckCredential(credential, value string) error {
	switch {
	case value == "":
		return fmt.Errorf("credential=%s: is empty", credential)
	case strings.ContainsAny(value, "\r\n\x00"):
		return fmt.Errorf("credential=%s: has several lines", credential)
	}
	return nil
}
