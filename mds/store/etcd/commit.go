package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"manifold/mds/store"
)

// leadBackend is the store.Backend of a Lead.
type leadBackend struct{ l *Lead }

// Snapshot implements store.Backend.
func (b leadBackend) Snapshot() (store.Snapshot, error) {
	if b.l.closed.Load() {
		return nil, store.ErrClosed
	}
	if !b.l.Valid() {
		return nil, ErrLost
	}
	return b.l.m.replica.Snapshot()
}

// Close implements store.Backend. The replica stays open: it is the Member's.
func (b leadBackend) Close() error { return nil }

// Commit implements store.Backend.
func (b leadBackend) Commit(batch []store.Write) error {
	l := b.l
	if err := l.m.status.full(batch); err != nil {
		return err
	}
	began := time.Now()
	ops := l.mapOps(batch)
	var err error
	if size := weight(batch); len(ops) <= l.m.cfg.MaxOps-1 && size <= l.m.cfg.MaxBytes {
		err = l.txn(ops)
	} else {
		err = l.commitLarge(batch, ops)
	}
	if err != nil {
		return l.judge(err)
	}
	l.m.status.committed(batch, time.Since(began))
	if err := l.m.replica.apply(batch, position{l.m.replica.at.cluster, l.seq}); err != nil {
		l.end("its replica cannot be written")
		return fmt.Errorf("%w: %w", store.ErrFailed, err)
	}
	return nil
}

// judge says what an error of a commit means to the Store. Whatever leaves
// unknown what the record holds ends the Lead.
func (l *Lead) judge(err error) error {
	if errors.Is(err, store.ErrNoSpace) || definite(err) {
		return err
	}
	l.end("a transaction failed: " + err.Error())
	if errors.Is(err, store.ErrFailed) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrFailed, err)
}

// weight is what a batch counts against Config.MaxBytes.
func weight(batch []store.Write) int {
	n := 0
	for _, w := range batch {
		n += len(w.Key) + len(w.Val) + 64
	}
	return n
}

// mapOps are a batch's writes.
func (l *Lead) mapOps(batch []store.Write) []clientv3.Op {
	prefix := l.m.key(mapKey)
	ops := make([]clientv3.Op, len(batch), len(batch)+1)
	for i, w := range batch {
		key := prefix + string(w.Key)
		if w.Val == nil {
			ops[i] = clientv3.OpDelete(key)
		} else {
			ops[i] = clientv3.OpPut(key, string(w.Val))
		}
	}
	return ops
}

// txn carries ops out, all or none of them, and moves l.seq to their revision. If it
// fails for other reasons than a definite one or want of space, then it is not known
// whether they took effect, or will.
func (l *Lead) txn(ops []clientv3.Op) error {
	l.count++
	if l.testHook != nil {
		l.testHook()
	}
	seq, stamp := l.m.key(keySeq), fmt.Sprintf("%s.%d", l.who.Term, l.count)
	ops = append(ops, clientv3.OpPut(seq, stamp))
	guards := []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(l.m.key(keyLead)), "=", l.born),
		clientv3.Compare(clientv3.ModRevision(seq), "=", l.seq),
	}
	state := []clientv3.Op{clientv3.OpGet(seq), clientv3.OpGet(l.m.key(keyLead))}
	for attempt := 1; ; attempt++ {
		left := l.clock.left(time.Now())
		if left <= 0 {
			return ErrLost
		}
		ctx, cancel := context.WithTimeout(l.m.ctx, min(tryTime, left))
		resp, err := l.m.etcd.Txn(ctx).If(guards...).Then(ops...).Else(state...).Commit()
		cancel()
		if err == nil {
			return l.outcome(resp, stamp)
		}
		if definite(err) {
			return err
		}
		if errors.Is(err, rpctypes.ErrNoSpace) {
			// etcd says so of a transaction that it has carried out, too.
			done, err := l.ask(seq, stamp)
			switch {
			case done:
				return nil
			case err == nil && attempt == 1:
				// An attempt before, if there was one, may still be under way.
				return fmt.Errorf("%w: etcd is over its quota (--quota-backend-bytes) and read-only until that is raised or keys are removed, and the alarm is disarmed", store.ErrNoSpace)
			}
		}
		l.m.status.trouble(l.m.log, err)
		pause(l.m.ctx, min(retryTime, left))
	}
}

// outcome reads the answer to a transaction.
func (l *Lead) outcome(resp *clientv3.TxnResponse, stamp string) error {
	if resp.Succeeded {
		l.seq = resp.Header.Revision
		return nil
	}
	// An attempt before may have been the one that took effect.
	if l.stamped(resp.Responses[0].GetResponseRange().Kvs, stamp) {
		return nil
	}
	if kvs := resp.Responses[1].GetResponseRange().Kvs; len(kvs) == 0 || kvs[0].CreateRevision != l.born {
		l.end("etcd says that it is over")
	}
	return ErrLost
}

// stamped says whether "seq", as it was read, is of the transaction with a stamp,
// and moves l.seq there.
func (l *Lead) stamped(seq []*mvccpb.KeyValue, stamp string) bool {
	if len(seq) == 0 || string(seq[0].Value) != stamp {
		return false
	}
	l.seq = seq[0].ModRevision
	return true
}

// ask finds out whether the transaction with a stamp has taken effect. If not, it
// cannot any more only if etcd refused it.
func (l *Lead) ask(seq, stamp string) (done bool, err error) {
	ctx, cancel := context.WithTimeout(l.m.ctx, tryTime)
	defer cancel()
	resp, err := l.m.etcd.Get(ctx, seq)
	if err != nil {
		return false, err
	}
	return l.stamped(resp.Kvs, stamp), nil
}

// definitelyGone says that a lease has ended.
func definitelyGone(err error) bool { return errors.Is(err, rpctypes.ErrLeaseNotFound) }
