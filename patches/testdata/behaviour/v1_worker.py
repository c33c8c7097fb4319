"""Shaped like SGLang's v1 worker: one class, three phases, entry by prefill or decode."""

from sglang.srt.managers.tp_worker import TpModelWorker


class EAGLEWorker(TpModelWorker):
    def forward_batch_generation(self, batch):
        if batch.forward_mode.is_extend() or batch.is_extend_in_batch:
            parts = self.forward_target_extend(batch)
            self.forward_draft_extend(batch, parts[0])
            return parts[0]
        batch.spec_info = self.draft(batch)
        logits_output, verify_output, can_run_cuda_graph = self.verify(batch)
        if verify_output.draft_extend_input.input_ids.shape[0] > 0:
            batch.spec_info = self.forward_draft_extend_after_decode(batch)
        return logits_output, verify_output, batch, sum(verify_output.num_correct_drafts_per_req_cpu)

    def draft(self, batch):
        raise NotImplementedError

    def verify(self, batch):
        raise NotImplementedError

    def forward_draft_extend_after_decode(self, batch):
        raise NotImplementedError
