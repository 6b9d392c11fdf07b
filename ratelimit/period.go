package ratelimit

import "time"

// Day returns the name and the end of the calendar day in UTC.
func Day(now time.Time) (name string, ends time.Time) {
	now = now.UTC()
	return now.Format(time.DateOnly), time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, time.UTC)
}

// Month returns the name and the end of the calendar month in UTC.
func Month(now time.Time) (name string, ends time.Time) {
	now = now.UTC()
	return now.Format("2006-01"), time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
}
