package clickhouse

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/ClickHouse/clickhouse-go/v2"

	"colonnade/analytics/ship"
)

// wrongTableError says that the table is not one of events.
type wrongTableError struct{ err error }

func (e wrongTableError) Error() string { return e.err.Error() }

// Codes of ClickHouse's errors.
const (
	unknownDatabase      = 81
	tooLargeString       = 131
	unknownUser          = 192
	wrongPassword        = 193
	requiredPassword     = 194
	valueOutOfRange      = 321
	thrownByView         = 395
	violatedConstraint   = 469
	accessDenied         = 497
	authenticationFailed = 516
)

// isRejected reports whether the server refuses the rows themselves. Errors of types are none of these, since the table may have been changed.
func isRejected(err error) bool {
	switch codeOf(err) {
	case valueOutOfRange, tooLargeString, thrownByView, violatedConstraint:
		return true
	case 0:
		var status *clickhouse.HTTPError // of something on the way
		return errors.As(err, &status) && status.StatusCode == http.StatusRequestEntityTooLarge
	}
	return false
}

// codeOf returns the code of an error, or 0 if the server has not sent it.
func codeOf(err error) int32 {
	var server *clickhouse.Exception
	if errors.As(err, &server) {
		return server.Code
	}
	return 0
}

// explain adds the setting that an error is about, its value, and what to do.
func (s *Sink) explain(err error) error {
	var rejected *ship.RejectedError
	var wrong wrongTableError
	if errors.As(err, &rejected) || errors.As(err, &wrong) {
		return err
	}
	if isRejected(err) {
		return ship.Rejected(fmt.Errorf("%s: %w", s.table.setting(), err))
	}
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err // without the URL, which has the statement
	}
	user := s.options.Auth.Username
	switch codeOf(err) {
	case 0:
		return fmt.Errorf("%s: %w", s.options.Addr[0], err)
	case unknownUser, wrongPassword, requiredPassword, authenticationFailed:
		if s.password == nil {
			return fmt.Errorf("user=%s: %w; write the user into the URL, and set credential=env:NAME or credential=file:PATH to the password", user, err)
		}
		return fmt.Errorf("user=%s: %w; check the user in the URL, and what credential names", user, err)
	case unknownDatabase:
		return fmt.Errorf("database=%s: %w; create it with: create database %s", s.table.database, err, s.table.database)
	case accessDenied:
		return fmt.Errorf("%s: %w; user %s needs insert on the table, create table and alter column for the sink to make and upgrade it, and no profile that is readonly",
			s.table.setting(), err, user)
	}
	return fmt.Errorf("%s: %w", s.table.setting(), err)
}
