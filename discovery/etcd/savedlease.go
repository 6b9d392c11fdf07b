package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// maxEarlierLeases bounds how many of its own leases a process remembers.
const maxEarlierLeases = 16

// savedLease is a lease that was taken for a key by this process, or by one that stood in its place and is dead. As the
// content of a file it says that the process did not leave.
type savedLease struct {
	Key   string           `json:"key"` // with the prefix
	Lease clientv3.LeaseID `json:"lease"`
}

// loadSavedLease reads the lease of an earlier run.
func (l *Lease) loadSavedLease() {
	if l.r.SavedLease == "" {
		return
	}
	var o savedLease
	content, err := os.ReadFile(l.r.SavedLease)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = json.Unmarshal(content, &o)
	}
	l.afterCrash, l.served = true, true
	if err != nil {
		l.r.Logger.Warn("cannot read the lease of an earlier run; if it did not leave, its lease must run out",
			"file", l.r.SavedLease, "error", err)
		return
	}
	l.earlier = append(l.earlier, o)
}

// saveLease keeps the lease's ID, in the file too. That comes before the key is put: whoever is killed in between has
// remembered a lease that holds nothing.
func (l *Lease) saveLease(id clientv3.LeaseID) {
	o := savedLease{Key: l.fullKey(), Lease: id}
	l.earlier = append(l.earlier, o)
	l.earlier = l.earlier[max(0, len(l.earlier)-maxEarlierLeases):]
	if l.r.SavedLease == "" {
		return
	}
	content, err := json.Marshal(o)
	if err == nil {
		err = os.WriteFile(l.r.SavedLease+".tmp", content, 0o600)
	}
	if err == nil {
		err = os.Rename(l.r.SavedLease+".tmp", l.r.SavedLease)
	}
	if err != nil {
		l.r.Logger.Warn("cannot save the lease; a restart after a crash must wait until it has run out",
			"file", l.r.SavedLease, "error", err)
	}
}

// removeSavedLease notes that this process has left.
func (l *Lease) removeSavedLease() {
	if l.r.SavedLease == "" {
		return
	}
	if err := os.Remove(l.r.SavedLease); err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.r.Logger.Warn("cannot remove the file of the lease", "file", l.r.SavedLease, "error", err)
	}
}

// revokeEarlier revokes our earlier leases as far as keys stand under them: that of a run before this one, which was
// killed, or one of this process, which a store that was restored has brought back.
func (l *Lease) revokeEarlier(ctx context.Context) error {
	for _, o := range slices.Backward(l.earlier) {
		stands, err := l.isUnderLease(ctx, o)
		if err != nil {
			return fmt.Errorf("cannot look for an earlier registration of %s: %w", l.r.Key, err)
		}
		if !stands {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, l.callTimeout())
		_, err = l.r.Client.Revoke(ctx, o.Lease)
		cancel()
		if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return fmt.Errorf("cannot end the earlier registration %s: %w", o.Key, err)
		}
		l.r.Logger.Info("ended the registration of an earlier run", "key", o.Key)
	}
	return nil
}

// isUnderLease reports whether the key stands under this lease. If not, the lease is none of ours, or has run out.
func (l *Lease) isUnderLease(ctx context.Context, o savedLease) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, l.callTimeout())
	defer cancel()
	answer, err := l.r.Client.Get(ctx, o.Key)
	if err != nil {
		return false, err
	}
	return o.Lease != 0 && len(answer.Kvs) == 1 && answer.Kvs[0].Lease == int64(o.Lease), nil
}
