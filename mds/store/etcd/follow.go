package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"manifold/mds/store"
)

// loadPage is how many keys are loaded at once.
const loadPage = 512

// follower keeps the replica up to date by a watch of the record.
type follower struct {
	m      *Member
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	revision int64         // the replica's
	moved    chan struct{} // closed when revision grows
	err      error         // why it ended by itself
}

func (m *Member) startFollowing() *follower {
	ctx, cancel := context.WithCancel(m.ctx)
	f := &follower{m: m, cancel: cancel, done: make(chan struct{}), revision: m.replica.at.revision, moved: make(chan struct{})}
	go f.run(ctx)
	return f
}

// end stops the follower; the replica is the caller's.
func (f *follower) end() {
	f.cancel()
	<-f.done
}

// run follows until ctx ends or the replica fails.
func (f *follower) run(ctx context.Context) {
	defer close(f.done)
	for ctx.Err() == nil {
		err := f.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, store.ErrFailed) || errors.Is(err, store.ErrNoSpace) {
			f.m.log.Error("the replica cannot be written", zap.Error(err))
			f.publish(0, err)
			return
		}
		if err != nil {
			f.m.status.trouble(f.m.log, err)
		}
		pause(ctx, 10*retryTime)
	}
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// once loads the record if need be and follows it until something fails.
func (f *follower) once(ctx context.Context) error {
	r := f.m.replica
	fresh, err := f.knows(ctx)
	if err != nil {
		return err
	}
	if !fresh {
		if err := f.load(ctx); err != nil {
			return err
		}
	}
	f.publish(r.at.revision, nil)
	// The watch ends when its member is cut off from the others, and goes on with another one.
	watch := f.m.etcd.Watch(clientv3.WithRequireLeader(ctx), f.m.cfg.Prefix,
		clientv3.WithPrefix(), clientv3.WithRev(r.at.revision+1), clientv3.WithProgressNotify())
	for resp := range watch {
		if resp.CompactRevision > 0 {
			f.m.log.Info("etcd has forgotten what the replica missed: it is loaded again")
			return f.spoil()
		}
		if err := resp.Err(); err != nil {
			return err
		}
		if err := f.take(&resp); err != nil {
			return err
		}
	}
	return errors.New("the watch of the record ended")
}

// knows says whether the replica is one of this etcd, from not after now.
func (f *follower) knows(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	resp, err := f.m.etcd.Get(ctx, f.m.key(keySeq), clientv3.WithCountOnly())
	if err != nil {
		return false, err
	}
	at := f.m.replica.at
	return at.revision > 0 && at.cluster == resp.Header.ClusterId && at.revision <= resp.Header.Revision, nil
}

// spoil makes the next once load the record.
func (f *follower) spoil() error { return f.m.replica.apply(nil, position{}) }

// load makes the replica like the record at one revision. What it has already
// stays: only what differs is written.
func (f *follower) load(ctx context.Context) error {
	if err := f.spoil(); err != nil {
		return err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	from, end := f.m.key(mapKey), f.m.key(mapEnd)
	var at position
	keys := 0
	for more := true; more; {
		opts := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(loadPage), clientv3.WithRev(at.revision)}
		resp, err := f.m.etcd.Get(ctx, from, opts...)
		if err != nil {
			return fmt.Errorf("load the record: %w", err)
		}
		if at.revision == 0 {
			at = position{resp.Header.ClusterId, resp.Header.Revision}
		}
		keys += len(resp.Kvs)
		if from, err = f.loadPage(from, resp); err != nil {
			return err
		}
		more = resp.More
	}
	if err := f.m.replica.apply(nil, at); err != nil {
		return err
	}
	f.m.log.Info("record loaded", zap.Int("keys", keys), zap.Int64("revision", at.revision), zap.Duration("took", time.Since(began)))
	return nil
}

// loadPage makes the replica's keys from from on like those of a page, as far as the
// page tells, and returns where the next one begins.
func (f *follower) loadPage(from string, page *clientv3.GetResponse) (next string, err error) {
	skip := len(f.m.cfg.Prefix) + len(mapKey)
	var to []byte // the end of what the page tells; nil: of everything
	if page.More {
		next = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		to = []byte(next[skip:])
	}
	snap, err := f.m.replica.Snapshot()
	if err != nil {
		return "", err
	}
	var batch []store.Write
	rest := page.Kvs
	putUntil := func(key []byte) {
		for len(rest) > 0 && (key == nil || bytes.Compare(rest[0].Key[skip:], key) < 0) {
			batch = append(batch, store.Write{Key: rest[0].Key[skip:], Val: present(rest[0].Value)})
			rest = rest[1:]
		}
	}
	err = snap.Scan([]byte(from[skip:]), to, func(k, v []byte) (bool, error) {
		putUntil(k)
		switch {
		case len(rest) == 0 || !bytes.Equal(rest[0].Key[skip:], k):
			batch = append(batch, store.Write{Key: bytes.Clone(k)})
		case bytes.Equal(rest[0].Value, v):
			rest = rest[1:]
		default:
			putUntil(append(bytes.Clone(k), 0))
		}
		return true, nil
	})
	putUntil(nil)
	snap.Release()
	if err != nil {
		return "", err
	}
	return next, f.m.replica.apply(batch, position{})
}

// present makes a value that is there out of an empty one.
func present(val []byte) []byte {
	if val == nil {
		return []byte{}
	}
	return val
}

// take writes what a watch tells to the replica.
func (f *follower) take(resp *clientv3.WatchResponse) error {
	skip := len(f.m.cfg.Prefix) + len(mapKey)
	newest := make(map[string][]byte)
	for _, e := range resp.Events {
		if name := e.Kv.Key[len(f.m.cfg.Prefix):]; !bytes.HasPrefix(name, []byte(mapKey)) {
			continue
		}
		val := present(e.Kv.Value)
		if e.Type == clientv3.EventTypeDelete {
			val = nil
		}
		newest[string(e.Kv.Key[skip:])] = val
	}
	batch := make([]store.Write, 0, len(newest))
	for k, v := range newest {
		batch = append(batch, store.Write{Key: []byte(k), Val: v})
	}
	slices.SortFunc(batch, func(a, b store.Write) int { return bytes.Compare(a.Key, b.Key) })
	at := position{resp.Header.ClusterId, resp.Header.Revision}
	if n := len(resp.Events); n > 0 {
		// The header may be ahead of the events.
		at.revision = resp.Events[n-1].Kv.ModRevision
	}
	if at.revision <= f.m.replica.at.revision && len(batch) == 0 {
		return nil
	}
	if err := f.m.replica.apply(batch, at); err != nil {
		return err
	}
	f.publish(at.revision, nil)
	return nil
}

func (f *follower) publish(revision int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision, f.err = revision, err
	close(f.moved)
	f.moved = make(chan struct{})
	f.m.status.follows(revision)
}

// reach waits until the replica shows a revision.
func (f *follower) reach(ctx context.Context, revision int64) error {
	for {
		f.mu.Lock()
		at, moved, err := f.revision, f.moved, f.err
		f.mu.Unlock()
		if err != nil {
			return err
		}
		if at >= revision {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("the replica is at revision %d of %d: %w", at, revision, ctx.Err())
		}
	}
}

// definite says that etcd refused a request before it could take effect.
func definite(err error) bool {
	return errors.Is(err, rpctypes.ErrTooManyOps) || errors.Is(err, rpctypes.ErrRequestTooLarge) ||
		errors.Is(err, rpctypes.ErrDuplicateKey) || errors.Is(err, rpctypes.ErrPermissionDenied)
}
