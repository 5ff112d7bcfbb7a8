"""What every training stage shares: a resumable loop that lasts a given number of minutes.

The schedules follow the clock instead of a step count, so that a stage ends when it should on a busy
machine too. The model card states the steps that were reached.
"""

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist


class Stage:
    """A training loop with warm-up, cosine decay, gradient clipping, EMA and checkpoints.

    ```
    stage = Stage(folder, "unet", parameters, minutes=60, peak_lr=1e-3)
    while stage.running():
        stage.step(loss)
    with stage.ema_weights(): model.save_pretrained(...)
    ```
    """

    def __init__(self, folder, name, modules, minutes, peak_lr, ema=0.0, weight_decay=0.0,
                 flat_until=0.0, save_every=120, on_save=None, by_width=False):
        self.name, self.seconds, self.peak_lr, self.decay = name, 60 * minutes, peak_lr, ema
        self.flat_until, self.save_every, self.on_save = flat_until, save_every, on_save
        self.modules = torch.nn.ModuleList(modules)
        self.parameters = [p for p in self.modules.parameters() if p.requires_grad]
        # Adam moves every weight equally far, so a unit with many inputs moves in proportion to their
        # number. `by_width` divides its rate by that (as muP does), relative to a 16-channel 3 x 3.
        groups = {}
        for p in self.parameters:
            scale = min(1.0, 144 / p[0].numel()) if by_width and p.dim() > 1 else 1.0
            groups.setdefault(scale, []).append(p)
        self.optimizer = torch.optim.AdamW([dict(params=ps, scale=s) for s, ps in groups.items()],
                                           lr=peak_lr, weight_decay=weight_decay, betas=(0.9, 0.99))
        self.path = Path(folder) / f"{name}.resume.pt"
        self.log_path = Path(folder) / "log.jsonl"
        self.steps, self.spent, self.average = 0, 0.0, None
        self.shadow = [p.detach().clone() for p in self.parameters] if ema else None
        if self.path.exists():
            state = torch.load(self.path, weights_only=True)
            self.modules.load_state_dict(state["modules"])
            self.optimizer.load_state_dict(state["optimizer"])
            for group, scale in zip(self.optimizer.param_groups, groups):
                group["scale"] = scale
            self.steps, self.spent = state["steps"], state["spent"]
            if self.shadow:
                self.shadow = state["shadow"]
            print(f"{name}: resumed at step {self.steps}, minute {self.spent / 60:.1f}", flush=True)
        self.last = self.saved = time.time()

    def fraction(self):
        return self.spent / self.seconds

    def running(self):
        if self.fraction() < 1:
            return True
        if self.last != self.saved:
            self.save()
        return False

    def learning_rate(self):
        """Linear warm-up over 40 steps; the peak until `flat_until`; then a cosine to 2 %."""
        warm = min(1.0, (self.steps + 1) / 40)
        done = max(0.0, (self.fraction() - self.flat_until) / (1 - self.flat_until))
        cosine = 0.5 + 0.5 * torch.cos(torch.tensor(min(done, 1.0) * torch.pi)).item()
        return self.peak_lr * warm * (0.02 + 0.98 * cosine)

    def step(self, loss, **shown):
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate() * group["scale"]
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if dist.is_initialized():
            self.average_over_workers()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.steps += 1
        if self.shadow:
            decay = min(self.decay, self.steps / (self.steps + 20))  # forget the beginning quickly
            torch._foreach_lerp_(self.shadow, [p.detach() for p in self.parameters], 1 - decay)
        value = loss.item()
        self.average = value if self.average is None else 0.98 * self.average + 0.02 * value
        now = time.time()
        self.spent, self.last = self.spent + now - self.last, now
        if self.steps % 50 == 0 and not (dist.is_initialized() and dist.get_rank() > 0):
            record = dict(stage=self.name, step=self.steps, minutes=round(self.spent / 60, 2),
                          loss=round(self.average, 5),
                          **{k: round(float(v), 5) for k, v in shown.items()})
            print(json.dumps(record), flush=True)
            with open(self.log_path, "a") as log:
                log.write(json.dumps(record) + "\n")
        if now - self.saved > self.save_every:
            self.save()

    def average_over_workers(self):
        """Gradients, and the clock, so that all workers stop after the same step."""
        flat = torch.cat([*(p.grad.reshape(-1) for p in self.parameters),
                          torch.tensor([self.spent])])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        self.spent = flat[-1].item()
        for p, mean in zip(self.parameters, flat.split([p.numel() for p in self.parameters] + [1])):
            p.grad.copy_(mean.view_as(p))

    def save(self):
        if dist.is_initialized() and dist.get_rank() > 0:
            self.last = self.saved = time.time()
            return
        state = dict(modules=self.modules.state_dict(), optimizer=self.optimizer.state_dict(),
                     steps=self.steps, spent=self.spent, shadow=self.shadow)
        partial = self.path.with_suffix(".partial")
        torch.save(state, partial)
        os.replace(partial, self.path)  # never leaves a half-written checkpoint behind
        if self.on_save:
            with self.ema_weights():
                self.on_save()
        self.last = self.saved = time.time()

    def ema_weights(self):
        """A context in which the modules hold the averaged weights."""
        return _Swapped(self.parameters, self.shadow or self.parameters)


class _Swapped:
    def __init__(self, parameters, shadow):
        self.parameters, self.shadow = parameters, shadow

    def __enter__(self):
        self.kept = [p.detach().clone() for p in self.parameters]
        with torch.no_grad():
            for p, s in zip(self.parameters, self.shadow):
                p.copy_(s)

    def __exit__(self, *_):
        with torch.no_grad():
            for p, k in zip(self.parameters, self.kept):
                p.copy_(k)
