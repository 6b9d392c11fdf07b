// Package reload keeps what stands in files, and reads them again when they have changed.
package reload
