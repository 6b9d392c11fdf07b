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

	"colonnade/internal/atomicfile"
)

// maxEarlierLeases bounds how many of its own leases a process remembers.
const maxEarlierLeases = 16

// savedLease is a lease that was taken for a key, by this process or by a dead one before it. The file that contains one
// says that its process did not leave.
type savedLease struct {
	Key   string           `json:"key"` // with the prefix
	Lease clientv3.LeaseID `json:"lease"`
}

// loadSavedLease reads the lease of an earlier run.
func (l *Lease) loadSavedLease() {
	if l.r.SavedLease == "" {
		return
	}
	var saved savedLease
	content, err := os.ReadFile(l.r.SavedLease)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = json.Unmarshal(content, &saved)
	}
	l.afterCrash, l.served = true, true
	if err != nil {
		l.r.Logger.Warn("cannot read the lease of an earlier run; if that run did not leave, its lease must expire",
			"file", l.r.SavedLease, "error", err)
		return
	}
	l.earlier = append(l.earlier, saved)
}

// saveLease remembers a lease, in the file too. That comes before the key is put: a process that is killed in between has
// saved a lease without a key.
func (l *Lease) saveLease(id clientv3.LeaseID) {
	saved := savedLease{Key: l.fullKey(), Lease: id}
	l.earlier = append(l.earlier, saved)
	l.earlier = l.earlier[max(0, len(l.earlier)-maxEarlierLeases):]
	if l.r.SavedLease == "" {
		return
	}
	content, err := json.Marshal(saved)
	if err == nil {
		err = atomicfile.Write(l.r.SavedLease, content, 0o600)
	}
	if err != nil {
		l.r.Logger.Warn("cannot save the lease; after a crash, a restart must wait until it has expired", "file", l.r.SavedLease, "error", err)
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

// revokeEarlier revokes the earlier leases under which a key still stands: that of a run before this one that was killed, or
// one of this process that came back with a store that was restored.
func (l *Lease) revokeEarlier(ctx context.Context) error {
	for _, saved := range slices.Backward(l.earlier) {
		attached, err := l.isUnderLease(ctx, saved)
		if err != nil {
			return fmt.Errorf("cannot look for an earlier registration of %s: %w", l.r.Key, err)
		}
		if !attached {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, l.callTimeout())
		_, err = l.r.Client.Revoke(ctx, saved.Lease)
		cancel()
		if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return fmt.Errorf("cannot end the earlier registration %s: %w", saved.Key, err)
		}
		l.r.Logger.Info("ended the registration of an earlier run", "key", saved.Key)
	}
	return nil
}

// isUnderLease reports whether the key stands under this lease. Otherwise the lease is another node's, or has expired.
func (l *Lease) isUnderLease(ctx context.Context, saved savedLease) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, l.callTimeout())
	defer cancel()
	answer, err := l.r.Client.Get(ctx, saved.Key)
	if err != nil {
		return false, err
	}
	return saved.Lease != 0 && len(answer.Kvs) == 1 && answer.Kvs[0].Lease == int64(saved.Lease), nil
}
