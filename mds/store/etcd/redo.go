package etcd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"manifold/mds/store"
)

// errRedo means that a piece of "redo/" is not what a Lead writes.
var errRedo = fmt.Errorf("%w: the record's redo log is damaged", store.ErrFailed)

// commitLarge carries out a batch that does not fit one transaction: it is
// final with the one that writes "redo-final".
func (l *Lead) commitLarge(batch []store.Write, ops []clientv3.Op) error {
	pieces := encodeRedo(batch, l.m.cfg.MaxBytes/2)
	for i, p := range pieces {
		piece := []clientv3.Op{clientv3.OpPut(l.redoKey(i), string(p))}
		if i == len(pieces)-1 {
			piece = append(piece, clientv3.OpPut(l.m.key(keyFinal), strconv.Itoa(len(pieces))))
		}
		if err := l.txn(piece); err != nil {
			return l.dropRedo(err)
		}
	}
	if err := l.carryOut(batch, ops); err != nil {
		// It is final: whatever the error says, this has to be taken for unknown.
		return fmt.Errorf("%w: %w", store.ErrFailed, err)
	}
	return nil
}

// dropRedo takes away pieces that have not become final. They are dropped by the
// next Lead if that fails.
func (l *Lead) dropRedo(why error) error {
	if !errors.Is(why, store.ErrNoSpace) && !definite(why) {
		return why
	}
	if err := l.txn([]clientv3.Op{l.forget()}); err != nil {
		return errors.Join(why, fmt.Errorf("%w: %w", store.ErrFailed, err))
	}
	return why
}

// forget removes all of "redo/".
func (l *Lead) forget() clientv3.Op {
	return clientv3.OpDelete(l.m.key(keyRedo), clientv3.WithPrefix())
}

func (l *Lead) redoKey(i int) string { return fmt.Sprintf("%s%08d", l.m.key(keyRedo), i) }

// carryOut does a final batch, and ends with taking the redo log away.
func (l *Lead) carryOut(batch []store.Write, ops []clientv3.Op) error {
	for len(batch) > 0 {
		n, size := 0, 0
		for n < len(batch) && n < l.m.cfg.MaxOps-1 && size+weight(batch[n:n+1]) <= l.m.cfg.MaxBytes {
			size += weight(batch[n : n+1])
			n++
		}
		if err := l.txn(ops[:n:n]); err != nil {
			return err
		}
		batch, ops = batch[n:], ops[n:]
	}
	return l.txn([]clientv3.Op{l.forget(), clientv3.OpDelete(l.m.key(keyFinal))})
}

// redo finishes what the Lead before has left.
func (l *Lead) redo() error {
	ctx, cancel := context.WithTimeout(l.m.ctx, loadTime)
	defer cancel()
	final, err := l.m.etcd.Get(ctx, l.m.key(keyFinal))
	if err != nil {
		return err
	}
	left, err := l.m.etcd.Get(ctx, l.m.key(keyRedo), clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
	if err != nil {
		return err
	}
	if len(final.Kvs) == 0 {
		if len(left.Kvs) > 0 {
			err = l.txn([]clientv3.Op{l.forget()})
		}
		return err
	}
	n, err := strconv.Atoi(string(final.Kvs[0].Value))
	if err != nil || n != len(left.Kvs) {
		return fmt.Errorf("%w: %d pieces of %q", errRedo, len(left.Kvs), final.Kvs[0].Value)
	}
	var batch []store.Write
	for _, kv := range left.Kvs {
		if batch, err = decodeRedo(batch, kv.Value); err != nil {
			return err
		}
	}
	l.m.log.Info("finishing what the leading metadata server before had begun", zap.Int("writes", len(batch)))
	if err := l.carryOut(batch, l.mapOps(batch)); err != nil {
		return err
	}
	return l.m.replica.apply(batch, position{l.m.replica.at.cluster, l.seq})
}

// encodeRedo writes a batch as pieces of at most max bytes, or one write. A
// write is the key's length, the key, the value's length and one, and the value;
// 0 for a removal.
func encodeRedo(batch []store.Write, max int) [][]byte {
	var pieces [][]byte
	var p []byte
	for _, w := range batch {
		if len(p) > 0 && len(p)+len(w.Key)+len(w.Val)+2*binary.MaxVarintLen64 > max {
			pieces, p = append(pieces, p), nil
		}
		p = binary.AppendUvarint(p, uint64(len(w.Key)))
		p = append(p, w.Key...)
		if w.Val == nil {
			p = binary.AppendUvarint(p, 0)
			continue
		}
		p = binary.AppendUvarint(p, uint64(len(w.Val))+1)
		p = append(p, w.Val...)
	}
	return append(pieces, p)
}

// decodeRedo appends a piece's writes to batch. They alias the piece.
func decodeRedo(batch []store.Write, p []byte) ([]store.Write, error) {
	field := func() ([]byte, uint64, bool) {
		n, k := binary.Uvarint(p)
		if k <= 0 {
			return nil, 0, false
		}
		p = p[k:]
		return p, n, true
	}
	for len(p) > 0 {
		_, n, ok := field()
		if !ok || n == 0 || n > store.MaxKey || n > uint64(len(p)) {
			return nil, errRedo
		}
		w := store.Write{Key: p[:n:n]}
		p = p[n:]
		_, n, ok = field()
		if !ok || n > store.MaxValue+1 || n > uint64(len(p))+1 {
			return nil, errRedo
		}
		if n > 0 {
			w.Val, p = p[:n-1:n-1], p[n-1:]
		}
		batch = append(batch, w)
	}
	return batch, nil
}
