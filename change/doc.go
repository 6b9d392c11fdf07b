// Package change changes the documents of a fleet the way operators change them, for the command line and for the admin API: it reads all
// documents, lets the caller decide by them, reviews the fleet as it would be, and carries the change out if nothing has changed meanwhile.
//
// The documents are in etcd or in files, behind [Documents]. [Documents.Apply] is the whole course; [Documents.Edit] leaves the review to
// the decision. A [Review] says which models a change takes out of service, which problems it adds, and which of its deletions nodes would
// hold back. A change is optimistic over everything that was read: in etcd, another change meanwhile makes it decide again, and a change of
// the same document by another author ends it.
package change
