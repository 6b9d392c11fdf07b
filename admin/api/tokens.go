package api

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"colonnade/forwarding/reload"
)

const (
	minToken     = 16       // characters
	maxTokenFile = 64 << 10 // bytes
)

// tokenName is the form of names: they stand in log lines and in the history.
var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$`)

// Tokens are those of a file, which is read again when it changes. Its methods may be called by several goroutines at once.
type Tokens struct{ files *reload.Files[tokenList] }

// tokenList has hashes, so that a comparison takes the same time for each token.
type tokenList struct {
	tokens  []namedToken
	problem error // a line of the file that is not right; nil = none
}

type namedToken struct {
	name string
	hash [sha256.Size]byte
}

// OpenTokens reads a file with a NAME and a TOKEN in each line. It is an error if others than its owner can read the file, or if it has no
// token. No token is in force later while the file is missing, or open to others; see newTokenList for its content.
func OpenTokens(path string, logger *slog.Logger) (*Tokens, error) {
	files, err := reload.Open(reload.Source[tokenList]{
		Name: "tokens of the admin API", Paths: []string{path}, Read: readSecret, Logger: logger, FailClosed: true,
		Parse: func(contents [][]byte, current *reload.Version[tokenList]) (tokenList, error) {
			var before *tokenList
			if current != nil {
				before = &current.Value
			}
			list, err := newTokenList(path, contents[0], before)
			if list.problem != nil {
				logger.Error("file of tokens has a line that is not right; no new token of it is in force", "error", list.problem)
			}
			return list, err
		},
	})
	if err != nil {
		return nil, err
	}
	return &Tokens{files}, nil
}

// Problem returns why tokens that the file has, or should have, are not in force; nil = all of them are.
func (t *Tokens) Problem() error {
	list, err := t.files.Get()
	return errors.Join(err, list.problem)
}

// user returns the name of a token. t may be nil.
func (t *Tokens) user(token string) (name string, ok bool) {
	if t == nil {
		return "", false
	}
	hash := sha256.Sum256([]byte(token))
	list, _ := t.files.Get()
	for _, known := range list.tokens { // all of them, so that the time says nothing
		if subtle.ConstantTimeCompare(hash[:], known.hash[:]) == 1 {
			name, ok = known.name, true
		}
	}
	return name, ok
}

// newTokenList returns the tokens in a file. before has those in force; nil = there are none yet. A file with tokens in force may become empty.
// If it has a line that is not right, those in force that stand in its good lines stay in force: a line that was deleted is revoked all the same.
func newTokenList(path string, data []byte, before *tokenList) (tokenList, error) {
	list, err := parseTokens(path, data)
	switch {
	case err != nil && before == nil:
		return tokenList{}, err
	case err != nil:
		known := slices.DeleteFunc(list, func(one namedToken) bool { return !slices.Contains(before.tokens, one) })
		return tokenList{known, err}, nil
	case len(list) == 0 && before == nil:
		return tokenList{}, fmt.Errorf("%s has no token: write lines of NAME TOKEN, such as: echo \"alice $(openssl rand -hex 24)\" >> %s", path, path)
	}
	return tokenList{tokens: list}, nil
}

// parseTokens returns the tokens in the good lines of a file, and an error about the first one that is not right. The error has no part of a line
// but a name.
func parseTokens(path string, data []byte) (list []namedToken, err error) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxTokenFile+1)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		wrong := wrongToken(fields)
		if wrong == "" {
			next := namedToken{fields[0], sha256.Sum256([]byte(fields[1]))}
			if !slices.ContainsFunc(list, func(other namedToken) bool { return other.hash == next.hash }) {
				list = append(list, next)
				continue
			}
			wrong = next.name + " has the token of another line"
		}
		if err == nil {
			err = fmt.Errorf("%s, line %d: %s", path, n, wrong)
		}
	}
	return list, errors.Join(err, lines.Err())
}

// wrongToken returns what is wrong with the words of a line; empty = nothing.
func wrongToken(fields []string) string {
	switch {
	case len(fields) != 2:
		return fmt.Sprintf("has %d words: a line is NAME TOKEN", len(fields))
	case !tokenName.MatchString(fields[0]):
		return "begins with a name that is not 1 to 64 letters, digits and . _ @ + -"
	case len(fields[1]) < minToken:
		return fmt.Sprintf("has a token of %d characters: use at least %d, such as those of openssl rand -hex 24", len(fields[1]), minToken)
	}
	return ""
}

// readSecret reads a file that only this process may read, and root may own.
func readSecret(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil {
		err = checkSecret(path, info)
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxTokenFile+1))
	if err == nil && len(data) > maxTokenFile {
		err = fmt.Errorf("%s has more than %d KiB", path, maxTokenFile>>10)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// checkSecret refuses a file that others may read or change. The group of a file that root owns may read it, as Kubernetes mounts secrets.
func checkSecret(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || !ok {
		return errors.New(path + " is not a regular file")
	}
	allowed, self := fs.FileMode(0o700), os.Geteuid()
	if stat.Uid == 0 && self != 0 {
		allowed = 0o750
	}
	switch {
	case int(stat.Uid) != self && stat.Uid != 0:
		return fmt.Errorf("%s belongs to another user: chown it to the user that this process runs as", path)
	case info.Mode().Perm()&^allowed != 0:
		return fmt.Errorf("%s has mode %04o: others can read it; run chmod 0600 on it", path, info.Mode().Perm())
	}
	return nil
}
