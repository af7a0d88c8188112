package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"manifold/mds/store"
)

const (
	// tendTime is how often the Lead looks after etcd, and how long a Member that
	// was away finds its watch's past: so much history is kept at least.
	tendTime = 5 * time.Minute
	// lookTime is how often it looks at the space.
	lookTime = 10 * time.Second
	// fullPercent is the part of the quota past which nothing is added: at 100
	// etcd refuses all writes, removals too. It counts the size of the file, of which
	// what was removed is unused until the member is defragmented.
	fullPercent = 95
	warnPercent = 80
	// A member's file is made smaller if so much of it is unused: for good
	// order, if it is at least that large, or because it nears the quota.
	wastePercent = 60
	wasteSize    = 256 << 20
	tightPercent = 20
	// quietTime is between two lines of one trouble in the log.
	quietTime = 10 * time.Second
)

// Status is what a Member knows of the record.
type Status struct {
	// Leads says whether this Member leads; Holder is who does as far as it knows.
	Leads  bool
	Holder Holder
	// Revision is what the replica shows at least, in etcd's count.
	Revision int64
	// Size, InUse and Quota are bytes of etcd's largest member. 0: not known.
	Size, InUse, Quota int64
	// Transactions were committed by this Member, with Writes in them, in Busy.
	Transactions, Writes uint64
	Busy                 time.Duration
	// Trouble is the newest error of a request to etcd, and Since when.
	Trouble string
	Since   time.Time
}

// status collects a Status.
type status struct {
	mu     sync.Mutex
	s      Status
	added  int64 // bytes committed since Size was asked for
	logged time.Time
}

// Status returns what is known now.
func (m *Member) Status() Status {
	m.status.mu.Lock()
	defer m.status.mu.Unlock()
	return m.status.s
}

func (t *status) leads(yes bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.s.Leads = yes
}

func (t *status) holder(val []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var h Holder
	if json.Unmarshal(val, &h) == nil {
		t.s.Holder = h
	}
}

func (t *status) follows(revision int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.s.Revision, t.s.Trouble = revision, ""
}

func (t *status) committed(batch []store.Write, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.s.Transactions++
	t.s.Writes += uint64(len(batch))
	t.added += int64(weight(batch))
	t.s.Busy += took
	t.s.Trouble = ""
}

// trouble notes that a request to etcd failed, and logs it now and then.
func (t *status) trouble(log *zap.Logger, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.s.Trouble, t.s.Since = err.Error(), now
	if now.Sub(t.logged) < quietTime {
		return
	}
	t.logged = now
	log.Warn("etcd does not answer as it should; trying again", zap.Error(err))
}

// full refuses a batch that adds to a record that is nearly full.
func (t *status) full(batch []store.Write) error {
	t.mu.Lock()
	size, quota := t.s.Size+t.added, t.s.Quota
	t.mu.Unlock()
	if quota == 0 || size < quota/100*fullPercent {
		return nil
	}
	for _, w := range batch {
		if w.Val != nil {
			return fmt.Errorf("%w: etcd's file is at %d %% of its quota of %d bytes: raise --quota-backend-bytes on all its members", store.ErrNoSpace, size*100/quota, quota)
		}
	}
	return nil
}

// tend looks after etcd while the Lead lasts: its space, and its history.
func (l *Lead) tend(ctx context.Context) {
	look, tick := time.NewTicker(lookTime), time.NewTicker(tendTime)
	defer look.Stop()
	defer tick.Stop()
	l.look(ctx)
	var before int64 // the revision one tick ago
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.over:
			return
		case <-look.C:
			l.look(ctx)
		case <-tick.C:
			before = l.compact(ctx, before)
			l.defragment(ctx, wasteSize, wastePercent)
		}
	}
}

// look asks etcd's members for their size.
func (l *Lead) look(ctx context.Context) {
	var size, inUse, quota int64
	for _, e := range l.m.etcd.Endpoints() {
		s, err := l.memberStatus(ctx, e)
		if err != nil {
			continue
		}
		q := s.DbSizeQuota
		if q == 0 {
			q = l.m.cfg.Quota
		}
		if quota == 0 || q < quota {
			quota = q
		}
		size, inUse = max(size, s.DbSize), max(inUse, s.DbSizeInUse)
	}
	t := &l.m.status
	t.mu.Lock()
	was := t.s
	t.s.Size, t.s.InUse, t.s.Quota, t.added = size, inUse, quota, 0
	t.mu.Unlock()
	if quota == 0 || size < quota/100*warnPercent {
		return
	}
	if was.Size < was.Quota/100*warnPercent {
		l.m.log.Warn("etcd fills up: raise --quota-backend-bytes on all its members", zap.Int64("size", size), zap.Int64("in_use", inUse), zap.Int64("quota", quota))
	}
	l.defragment(ctx, 0, tightPercent)
}

func (l *Lead) memberStatus(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	return l.m.etcd.Status(ctx, endpoint)
}

// compact forgets the history before a revision, and returns the newest one.
func (l *Lead) compact(ctx context.Context, before int64) int64 {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	if before > 0 {
		if _, err := l.m.etcd.Compact(ctx, before); err != nil {
			l.m.status.trouble(l.m.log, fmt.Errorf("compaction: %w", err))
		}
	}
	resp, err := l.m.etcd.Get(ctx, l.m.key(keySeq), clientv3.WithCountOnly())
	if err != nil {
		return before
	}
	return resp.Header.Revision
}

// defragment makes the file of one etcd member smaller, if one of at least size
// bytes wastes more than percent of them. The member answers nothing meanwhile, so
// etcd's own leader is left for last.
func (l *Lead) defragment(ctx context.Context, size, percent int64) {
	worst, isLeader := "", true
	for _, e := range l.m.etcd.Endpoints() {
		s, err := l.memberStatus(ctx, e)
		if err != nil {
			return // not while one is down
		}
		if s.DbSize < size || s.DbSize-s.DbSizeInUse <= s.DbSize/100*percent {
			continue
		}
		if leader := s.Leader == s.Header.MemberId; worst == "" || isLeader && !leader {
			worst, isLeader = e, leader
		}
	}
	if worst == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	began := time.Now()
	_, err := l.m.etcd.Defragment(ctx, worst)
	l.m.log.Info("etcd member defragmented", zap.String("endpoint", worst), zap.Duration("took", time.Since(began)), zap.Error(err))
}
