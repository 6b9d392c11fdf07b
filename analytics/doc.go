// Package analytics describes what happened to requests: one [Event] for each node that carried one. Package journal keeps
// events on disk, package metrics counts them.
package analytics
