"""The EAGLE worker: draft, verify, draft re-extend, each with its share of host and device work."""

import torch
from sglang.srt.managers.schedule_batch import GenerationBatchResult
from sglang.srt.managers.tp_worker import TpModelWorker
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.speculative.eagle_info import EagleDraftInput, EagleVerifyInput, EagleVerifyOutput
from specrun_lab.acceptance import Acceptance


class EAGLEWorker(TpModelWorker):
    """The draft model's worker; `target_worker` is the model that it drafts for."""

    def __init__(self, server_args, gpu_id, tp_rank, device, timing, acceptance, target_worker):
        super().__init__(server_args, gpu_id, tp_rank, device, timing)
        self.target_worker = target_worker
        self.topk = server_args.speculative_eagle_topk
        self.speculative_num_steps = server_args.speculative_num_steps
        self.speculative_num_draft_tokens = server_args.speculative_num_draft_tokens
        self._acceptance = Acceptance(acceptance, self.speculative_num_steps)

    def forward_batch_generation(self, batch):
        """One prefill, or one cycle of speculative decoding."""
        if batch.forward_mode.is_extend() or batch.is_extend_in_batch:
            result = self.forward_target_extend(batch)
            self.forward_draft_extend(batch, result.next_token_ids)
            result.num_accepted_tokens = 0
            return result
        spec_info = self.draft(batch)
        _, verify_output, _, can_run_cuda_graph = self.verify(batch, spec_info)
        if not all(req.finished() for req in batch.reqs):
            self.forward_draft_extend_after_decode(batch)
        accepted = verify_output.accept_length_per_req_cpu
        return GenerationBatchResult(verify_output.verified_id, sum(accepted), accepted, can_run_cuda_graph)

    def forward_target_extend(self, batch):
        return self.target_worker.forward_batch_generation(batch)

    def forward_draft_extend(self, batch, next_token_ids):
        """Prefill of the draft model: part of the time that the target's prefill has."""
        batch.spec_info = EagleDraftInput(next_token_ids)

    def draft(self, batch):
        """Queue the draft's forwards; the host goes on while the device drafts."""
        self._draft_preprocess_decode(batch)
        self.draft_forward(batch)
        return EagleVerifyInput(
            self.speculative_num_draft_tokens, self.speculative_num_steps, self.topk, batch.seq_lens_cpu
        )

    def _draft_preprocess_decode(self, batch):
        # Hidden behind the device, which still runs the re-extend of the cycle before.
        self.device.host(self.timing.host_draft())

    def draft_forward(self, batch):
        self.device.launch(self.timing.draft(self.speculative_num_steps))

    def verify(self, batch, spec_info):
        """Queue the target's forward over all drafts, then wait for what it accepted."""
        self.device.host(self.timing.host_verify())
        batch.forward_mode = ForwardMode.TARGET_VERIFY
        self.device.launch(self.timing.verify(spec_info.draft_token_num, batch.mean_seq_len, batch.batch_size()))
        self.device.read()
        batch.forward_mode = ForwardMode.DECODE
        accepted = []
        for req in batch.reqs:
            taken = req.append(self._acceptance.draw() + 1)
            req.spec_verify_ct += 1
            req.spec_accepted_tokens += taken - 1
            accepted.append(taken - 1)
        verified_id = torch.tensor([r.output_ids[-1] for r in batch.reqs], device="cuda")
        output = EagleVerifyOutput(EagleDraftInput(verified_id), verified_id, accepted)
        batch.spec_info = output.draft_input
        return None, output, None, True

    def forward_draft_extend_after_decode(self, batch):
        """Queue the draft model's pass over the accepted tokens; nothing waits for it here."""
        self.device.host(self.timing.host_extend())
        self.device.launch(self.timing.extend())
