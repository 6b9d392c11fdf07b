package hop

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// maxKeyFile bounds a key file, in bytes.
const maxKeyFile = 64 << 10

// ReadKeys reads a key file, which holds one key a line as base64 of 32 bytes, and which only its owner may read.
func ReadKeys(path string) (*Keys, error) {
	data, err := ReadKeyFile(path)
	if err != nil {
		return nil, err
	}
	return ParseKeys(path, data)
}

// ReadKeyFile returns the content of a key file. A file that others can read is an error.
func ReadKeyFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read key file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("key file %s is not a regular file", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("key file %s has mode %04o: others can read it; run chmod 0600 on it", path, mode)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read key file: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read key file: %w", err)
	}
	if len(data) > maxKeyFile {
		return nil, fmt.Errorf("key file %s has more than %d KiB", path, maxKeyFile>>10)
	}
	return data, nil
}

// ParseKeys returns the keys in the content of the key file at path. Its errors have no part of the content.
func ParseKeys(path string, data []byte) (*Keys, error) {
	var keys [][]byte
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(key) != KeySize {
			return nil, fmt.Errorf("key file %s, line %d: not base64 of %d bytes; make one with: head -c 32 /dev/urandom | base64", path, n, KeySize)
		}
		keys = append(keys, key)
	}
	if err := lines.Err(); err != nil { // a line without an end: the keys before it are not all
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	k, err := NewKeys(keys...)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return k, nil
}

// With returns the keys of k, then those of other.
func (k *Keys) With(other *Keys) *Keys {
	all := slices.Concat(k.signers(), other.signers())
	joined := &Keys{}
	joined.inForce.Store(&all)
	return joined
}

// FileContent returns the content of a key file with the keys of these ids, in this order. It is secret.
func (k *Keys) FileContent(ids []string) ([]byte, error) {
	var content []byte
	for _, id := range ids {
		i := slices.IndexFunc(k.signers(), func(s *signer) bool { return s.id == id })
		if i < 0 {
			return nil, fmt.Errorf("there is no key %s", id)
		}
		content = append(base64.StdEncoding.AppendEncode(content, k.signers()[i].key), '\n')
	}
	return content, nil
}
